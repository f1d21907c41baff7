//! A multi-layer perceptron whose layers push tangents: `x ← φ(x W_l + b_l)`, the last layer affine.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, TensorData};
use rand_distr::{Distribution, StandardNormal};
use sememe_kernels::Activation;
use sememe_truth::random::Stream;

use crate::jacobian::{Activate, Dual, Tangents};

/// An affine layer with weights `N(0, gain²/fan-in)` drawn from `stream`, and biases 0.
pub fn linear(fan_in: usize, fan_out: usize, gain: f64, device: &Device, stream: &mut Stream) -> Linear {
    let std = gain / (fan_in.max(1) as f64).sqrt();
    let weights: Vec<f32> = (0..fan_in * fan_out)
        .map(|_| {
            let unit: f64 = StandardNormal.sample(stream);
            (std * unit) as f32
        })
        .collect();
    Linear {
        weight: Param::from_tensor(Tensor::from_data(TensorData::new(weights, [fan_in, fan_out]), device)),
        bias: Some(Param::from_tensor(Tensor::zeros([fan_out], device))),
    }
}

/// Affine layers with φ between them.
#[derive(Module, Debug)]
pub struct Mlp {
    /// In the order of application.
    pub layers: Vec<Linear>,
    /// φ between the layers.
    pub phi: Activate,
}

impl Mlp {
    /// Layers of widths `sizes[0] → … → sizes.last()`; hidden layers have gain √2 (He et al. 2015).
    pub fn new(sizes: &[usize], phi: Activation, device: &Device, stream: &mut Stream) -> Self {
        let last = sizes.len().saturating_sub(2);
        let layers = sizes.windows(2).enumerate().map(|(l, pair)| {
            let gain = if l == last { 1.0 } else { std::f64::consts::SQRT_2 };
            linear(pair[0], pair[1], gain, device, stream)
        });
        Self { layers: layers.collect(), phi: Activate::new(phi) }
    }
}

impl Tangents<2> for Mlp {
    fn apply(&self, x: Tensor<2>) -> Tensor<2> {
        self.layers.iter().enumerate().fold(x, |x, (l, layer)| layer.apply(if l > 0 { Tangents::<2>::apply(&self.phi, x) } else { x }))
    }

    fn push(&self, x: Dual<2>) -> Dual<2> {
        self.layers.iter().enumerate().fold(x, |x, (l, layer)| layer.push(if l > 0 { Tangents::<2>::push(&self.phi, x) } else { x }))
    }
}
