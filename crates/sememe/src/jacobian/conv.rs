//! Convolutions: affine in their input, so tangents pass through the kernel without the bias.

use burn::nn::conv::{Conv2d, ConvTranspose2d};
use burn::tensor::Tensor;

use super::{Dual, Tangents};

/// The linear part of an affine layer applied to tangents: `ẏ = g(ẋ) − b`, the
/// layer with its bias taken away.
impl Tangents<4> for Conv2d {
    fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        self.forward(x)
    }

    fn push(&self, x: Dual<4>) -> Dual<4> {
        let unbiased = Self { bias: None, ..self.clone() };
        Dual { tangents: unbiased.forward(x.tangents), value: self.forward(x.value) }
    }
}

impl Tangents<4> for ConvTranspose2d {
    fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        self.forward(x)
    }

    fn push(&self, x: Dual<4>) -> Dual<4> {
        let unbiased = Self { bias: None, ..self.clone() };
        Dual { tangents: unbiased.forward(x.tangents), value: self.forward(x.value) }
    }
}
