//! Normalisation layers, each in its evaluation form.
//!
//! Layer, group and instance norm take mean and variance from the sample
//! itself. Over a set of M elements, with `x̂ = (x − μ)/σ`, `σ² = var + ε`:
//!
//! - value    `y = γ x̂ + β`
//! - tangents `ẏ = γ/σ · (ẋ − mean(ẋ) − x̂ · mean(x̂ ẋ))`
//!
//! Batch norm in evaluation uses stored statistics, so it is affine a channel:
//! `ẏ = γ/√(var + ε) · ẋ`.
//!
//! # Source
//! Ba et al. 2016 (layer), Wu & He 2018 (group), Ulyanov et al. 2016 (instance), Ioffe & Szegedy 2015 (batch);
//! the tangent is the derivative of their defining equations.

use burn::module::Module;
use burn::nn::{self, BatchNorm, GroupNorm, InstanceNorm, LayerNormConfig};
use burn::tensor::{Device, Tensor};

use super::{Dual, Tangents};

/// `(x̂, x̂˙)` over the last dimension; `value [N, S, M]`, `tangents [k·N, S, M]`.
fn standardise(value: Tensor<3>, tangents: Tensor<3>, epsilon: f64) -> (Tensor<3>, Tensor<3>) {
    let [samples, sets, size] = value.dims();
    let directions = tangents.dims()[0] / samples;
    let centred = value.clone() - value.mean_dim(2);
    let sigma = ((centred.clone() * centred.clone()).mean_dim(2) + epsilon).sqrt();
    let hat = centred / sigma.clone();
    // The blocks of tangents share the statistics of their sample.
    let blocks = tangents.reshape([directions, samples, sets, size]);
    let hat_of = hat.clone().unsqueeze::<4>();
    let along = (blocks.clone() * hat_of.clone()).mean_dim(3);
    let pushed = (blocks.clone() - blocks.mean_dim(3) - hat_of * along) / sigma.unsqueeze::<4>();
    (hat, pushed.reshape([directions * samples, sets, size]))
}

/// Layer norm over the last dimension, with the ε that its tangents need.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// The layer itself.
    pub norm: nn::LayerNorm,
    /// ε, added to the variance.
    #[module(skip)]
    pub epsilon: f64,
}

impl LayerNorm {
    /// The layer that `config` describes.
    pub fn new(config: &LayerNormConfig, device: &Device) -> Self {
        Self { norm: config.init(device), epsilon: config.epsilon }
    }
}

impl<const D: usize> Tangents<D> for LayerNorm {
    fn apply(&self, x: Tensor<D>) -> Tensor<D> {
        self.norm.forward(x)
    }

    fn push(&self, x: Dual<D>) -> Dual<D> {
        let (dims, tangent_dims) = (x.value.dims(), x.tangents.dims());
        let width = dims[D - 1];
        let inner = dims[1..D - 1].iter().product::<usize>();
        let (_, pushed) = standardise(
            x.value.clone().reshape([dims[0], inner, width]),
            x.tangents.reshape([tangent_dims[0], inner, width]),
            self.epsilon,
        );
        let gamma = self.norm.gamma.val().reshape([1, 1, width]);
        Dual { value: self.norm.forward(x.value), tangents: (pushed * gamma).reshape(tangent_dims) }
    }
}

/// Group norm over `groups` of channels: shared by [`GroupNorm`] and [`InstanceNorm`] (one channel a group).
fn push_grouped(x: &Dual<4>, groups: usize, epsilon: f64, gamma: Option<Tensor<1>>) -> Tensor<4> {
    let [samples, channels, height, width] = x.value.dims();
    let rows = x.tangents.dims()[0];
    let size = channels / groups * height * width;
    let (_, pushed) =
        standardise(x.value.clone().reshape([samples, groups, size]), x.tangents.clone().reshape([rows, groups, size]), epsilon);
    let pushed = pushed.reshape([rows, channels, height, width]);
    match gamma {
        Some(gamma) => pushed * gamma.reshape([1, channels, 1, 1]),
        None => pushed,
    }
}

impl Tangents<4> for GroupNorm {
    fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        self.forward(x)
    }

    fn push(&self, x: Dual<4>) -> Dual<4> {
        let tangents = push_grouped(&x, self.num_groups, self.epsilon, self.gamma.as_ref().map(|gamma| gamma.val()));
        Dual { value: self.forward(x.value), tangents }
    }
}

impl Tangents<4> for InstanceNorm {
    fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        self.forward(x)
    }

    fn push(&self, x: Dual<4>) -> Dual<4> {
        let tangents = push_grouped(&x, self.num_channels, self.epsilon, self.gamma.as_ref().map(|gamma| gamma.val()));
        Dual { value: self.forward(x.value), tangents }
    }
}

/// `(scale, shift)` of the affine map that batch norm is in evaluation, each `[C]`.
fn evaluation_affine(norm: &BatchNorm) -> (Tensor<1>, Tensor<1>) {
    let scale = norm.gamma.val() / (norm.running_var.value() + norm.epsilon).sqrt();
    let shift = norm.beta.val() - norm.running_mean.value() * scale.clone();
    (scale, shift)
}

impl Tangents<2> for BatchNorm {
    fn apply(&self, x: Tensor<2>) -> Tensor<2> {
        let (scale, shift) = evaluation_affine(self);
        x * scale.unsqueeze::<2>() + shift.unsqueeze::<2>()
    }

    fn push(&self, x: Dual<2>) -> Dual<2> {
        let (scale, _) = evaluation_affine(self);
        Dual { value: self.apply(x.value), tangents: x.tangents * scale.unsqueeze::<2>() }
    }
}

impl Tangents<4> for BatchNorm {
    fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let (scale, shift) = evaluation_affine(self);
        let channels = x.dims()[1];
        x * scale.reshape([1, channels, 1, 1]) + shift.reshape([1, channels, 1, 1])
    }

    fn push(&self, x: Dual<4>) -> Dual<4> {
        let (scale, _) = evaluation_affine(self);
        let channels = x.value.dims()[1];
        Dual { value: self.apply(x.value), tangents: x.tangents * scale.reshape([1, channels, 1, 1]) }
    }
}
