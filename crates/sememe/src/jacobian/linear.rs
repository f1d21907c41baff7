//! A linear layer: `y = x W + b`, `ẏ = ẋ W`.

use burn::nn::Linear;
use burn::tensor::Tensor;

use super::{Dual, Tangents};

impl Tangents<2> for Linear {
    fn apply(&self, x: Tensor<2>) -> Tensor<2> {
        self.forward(x)
    }

    fn push(&self, x: Dual<2>) -> Dual<2> {
        Dual { tangents: x.tangents.matmul(self.weight.val()), value: self.forward(x.value) }
    }
}
