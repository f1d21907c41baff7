//! The parts of a layer, each in its file.

mod attention;
mod delta_net;
mod mlp;
mod norm;
mod rope;

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Shape, Tensor, TensorData};
use rand_distr::{Distribution, StandardNormal, Uniform};
use sememe_truth::random::stream;

pub(crate) use attention::Attention;
pub(crate) use delta_net::DeltaNet;
pub(crate) use mlp::Mlp;
pub(crate) use norm::Norm;
pub use rope::{Rope, RopeScaling};

/// `x W + b` of `x [N, in]`, `weight [in, out]`.
pub(crate) fn affine(x: Tensor<2>, weight: &Param<Tensor<2>>, bias: Option<&Param<Tensor<1>>>) -> Tensor<2> {
    let y = x.matmul(weight.val());
    match bias {
        Some(bias) => y + bias.val().unsqueeze::<2>(),
        None => y,
    }
}

/// Makes parameters: drawn from a seed, or without memory where they are about to be loaded.
pub(crate) struct Maker<'a> {
    pub seed: Option<u64>,
    pub device: &'a Device,
}

impl Maker<'_> {
    /// A parameter that takes no memory, so that a config may claim any size until it is held against the checkpoint.
    fn unset<const D: usize>(&self, shape: [usize; D]) -> Param<Tensor<D>> {
        let zeros = move |device: &Device, _| Tensor::zeros(shape, device);
        Param::uninitialized(ParamId::new(), zeros, self.device.clone(), true, Shape::new(shape))
    }

    /// `[rows, columns]` from N(0, std²), a stream a name.
    pub fn matrix(&self, name: &str, [rows, columns]: [usize; 2], std: f64) -> Param<Tensor<2>> {
        let Some(seed) = self.seed else { return self.unset([rows, columns]) };
        let mut stream = stream(seed, name);
        let values: Vec<f32> = (0..rows * columns)
            .map(|_| {
                let unit: f64 = StandardNormal.sample(&mut stream);
                (std * unit) as f32
            })
            .collect();
        Param::from_tensor(Tensor::from_data(TensorData::new(values, [rows, columns]), self.device))
    }

    /// `[size]` of `value`.
    pub fn vector(&self, size: usize, value: f32) -> Param<Tensor<1>> {
        match self.seed {
            Some(_) => Param::from_tensor(Tensor::full([size], value, self.device)),
            None => self.unset([size]),
        }
    }

    /// `[size]`, the logarithms of numbers uniform in `low..high`.
    pub fn log_uniform(&self, name: &str, size: usize, low: f64, high: f64) -> Param<Tensor<1>> {
        let (Some(seed), Ok(uniform)) = (self.seed, Uniform::new(low, high)) else { return self.vector(size, 0.0) };
        let mut stream = stream(seed, name);
        let values: Vec<f32> = (0..size).map(|_| uniform.sample(&mut stream).ln() as f32).collect();
        Param::from_tensor(Tensor::from_data(TensorData::new(values, [size]), self.device))
    }
}
