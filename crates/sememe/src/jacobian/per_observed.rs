//! A decoder of one small network for each observed variable, with its whole Jacobian in closed form.
//!
//! Observed variable i has its own hidden layers of width h over all latents:
//!
//! `a_1 = z W_1,i + b_1,i`, `a_l = φ(a_{l−1}) W_l,i + b_l,i`, `x_i = φ(a_L)·w_i + c_i`.
//!
//! No hidden unit is shared, so a zero of the Jacobian costs no other entry its
//! fit: the structure can be sparse without compromise. And since x_i is one
//! number of its own network, its row of the Jacobian is one reverse sweep:
//!
//! `r_L = w_i ⊙ φ′(a_L)`, `r_{l−1} = (W_l,i r_l) ⊙ φ′(a_{l−1})`, `J[i,:] = W_1,i r_1`,
//!
//! which costs about one forward pass for *all* dz columns, against dz passes by tangents.
//!
//! # Source
//! One decoder an observed variable: Moran et al. 2022, *Identifiable Deep Generative Models via Sparse Decoding*;
//! the sweep is the adjoint of Griewank & Walther 2008, §3.2.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use rand_distr::{Distribution, StandardNormal};
use sememe_kernels::{Activation, activate, scale_tangents};
use sememe_truth::random::Stream;

use super::{Dual, Tangents};

/// `dx` networks of equal widths, held as batched matrices.
#[derive(Module, Debug)]
pub struct PerObserved {
    /// `W_l [dx, width_{l−1}, width_l]`, the last one of width 1.
    pub weights: Vec<Param<Tensor<3>>>,
    /// `b_l [dx, 1, width_l]`.
    pub biases: Vec<Param<Tensor<3>>>,
    /// φ of the hidden layers.
    #[module(skip)]
    pub phi: Activation,
}

/// Standard deviation of the first layer's biases at the start.
const FIRST_BIAS_STD: f64 = 0.5;
/// Gain of the layers between hidden ones: √1.5, since a smooth φ passes a little more than half of the variance.
const HIDDEN_GAIN: f64 = 1.224_744_871_391_589;

impl PerObserved {
    /// Networks `dz → widths… → 1` for each of `dx` observed variables; weights `N(0, gain²/fan-in)`, biases 0 but for the first layer's.
    pub fn new(dz: usize, widths: &[usize], dx: usize, phi: Activation, device: &Device, stream: &mut Stream) -> Self {
        let sizes: Vec<usize> = [dz].iter().chain(widths).chain(&[1]).copied().collect();
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for pair in sizes.windows(2) {
            let (fan_in, fan_out) = (pair[0], pair[1]);
            let gain = if weights.is_empty() || fan_out == 1 { 1.0 } else { HIDDEN_GAIN };
            let std = gain / (fan_in as f64).sqrt();
            let values: Vec<f32> = (0..dx * fan_in * fan_out)
                .map(|_| {
                    let unit: f64 = StandardNormal.sample(stream);
                    (std * unit) as f32
                })
                .collect();
            weights.push(Param::from_tensor(Tensor::from_data(TensorData::new(values, [dx, fan_in, fan_out]), device)));
            // Kinks and bends of the first layer spread over the latents' range.
            let spread = if biases.is_empty() { FIRST_BIAS_STD } else { 0.0 };
            let offsets: Vec<f32> = (0..dx * fan_out)
                .map(|_| {
                    let unit: f64 = StandardNormal.sample(stream);
                    (spread * unit) as f32
                })
                .collect();
            biases.push(Param::from_tensor(Tensor::from_data(TensorData::new(offsets, [dx, 1, fan_out]), device)));
        }
        Self { weights, biases, phi }
    }

    /// `z [N, dz]` seen by every network: `[dx, N, dz]`.
    fn spread(&self, z: Tensor<2>) -> Tensor<3> {
        let [samples, dz] = z.dims();
        let dx = self.weights[0].dims()[0];
        z.unsqueeze::<3>().expand([dx, samples, dz])
    }

    /// The pre-activations `a_1 … a_L` and the output `[dx, N, 1]`.
    fn sweep(&self, z: Tensor<2>) -> (Vec<Tensor<3>>, Tensor<3>) {
        let mut pre = Vec::new();
        let mut x = self.spread(z);
        for (layer, (weight, bias)) in self.weights.iter().zip(&self.biases).enumerate() {
            if layer > 0 {
                pre.push(x.clone());
                x = activate(x, self.phi);
            }
            x = x.matmul(weight.val()) + bias.val();
        }
        (pre, x)
    }
}

/// `[dx, N, 1] → [N, dx]`.
fn gather(x: Tensor<3>) -> Tensor<2> {
    x.squeeze_dim::<2>(2).transpose()
}

impl Tangents<2> for PerObserved {
    fn apply(&self, z: Tensor<2>) -> Tensor<2> {
        gather(self.sweep(z).1)
    }

    fn push(&self, z: Dual<2>) -> Dual<2> {
        let directions = z.directions();
        let samples = z.value.dims()[0];
        let (pre, value) = self.sweep(z.value);
        // Each network keeps its tangents as `[dx, k·N, width]`, so a block of φ′ spans k·N rows of its network.
        let mut tangents = self.spread(z.tangents);
        for (layer, weight) in self.weights.iter().enumerate() {
            if layer > 0 {
                let [dx, _, width] = tangents.dims();
                let blocks = tangents.reshape([dx, directions, samples, width]).swap_dims(0, 1);
                let scaled = scale_tangents(blocks, pre[layer - 1].clone().unsqueeze::<4>(), self.phi);
                tangents = scaled.swap_dims(0, 1).reshape([dx, directions * samples, width]);
            }
            tangents = tangents.matmul(weight.val());
        }
        Dual { value: gather(value), tangents: gather(tangents) }
    }

    fn whole_jacobian(&self, z: &Tensor<2>) -> Option<Dual<2>> {
        let [samples, dz] = z.dims();
        let (pre, value) = self.sweep(z.clone());
        let dx = value.dims()[0];
        let last = self.weights.len() - 1;
        // r [dx, N, width]: the row's sensitivity to the pre-activations of the layer at hand.
        let mut r = self.weights[last].val().swap_dims(1, 2).expand([dx, samples, self.weights[last].dims()[1]]);
        for layer in (0..last).rev() {
            r = scale_tangents(r, pre[layer].clone(), self.phi).matmul(self.weights[layer].val().swap_dims(1, 2));
        }
        let jacobian = r.reshape([dx, samples, dz]).permute([2, 1, 0]).reshape([dz * samples, dx]);
        Some(Dual { value: gather(value), tangents: jacobian })
    }
}
