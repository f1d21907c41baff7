//! Where `b_dec` begins: at the middle of the first batch.
//!
//! The geometric median minimises `Σ_t ‖x_t − m‖` and, unlike the mean, is not
//! pulled away by the few tokens of enormous norm that language models have.
//! Weiszfeld's iteration: `m ← Σ_t x_t/‖x_t − m‖ / Σ_t 1/‖x_t − m‖`.
//!
//! # Source
//! Weiszfeld 1937; its use here: Bricken et al. 2023.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Where `b_dec` begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Centre {
    /// The geometric median of the first batch.
    #[default]
    GeometricMedian,
    /// The mean of the first batch.
    Mean,
    /// 0.
    Zero,
}

impl Centre {
    /// The middle of `x [N, d]`: `[d]`; `None` for 0.
    pub fn of(self, x: &Tensor<2>) -> Option<Tensor<1>> {
        match self {
            Self::GeometricMedian => Some(geometric_median(x, 50)),
            Self::Mean => Some(x.clone().mean_dim(0).squeeze_dim::<1>(0)),
            Self::Zero => None,
        }
    }
}

/// The geometric median of the rows of `x [N, d]`, by at most `iterations` steps from the mean: `[d]`.
pub fn geometric_median(x: &Tensor<2>, iterations: usize) -> Tensor<1> {
    let mut middle = x.clone().mean_dim(0);
    for _ in 0..iterations {
        let offset = x.clone() - middle.clone();
        let weights = ((offset.clone() * offset).sum_dim(1).sqrt() + 1e-6).recip();
        let next = (x.clone() * weights.clone()).sum_dim(0) / weights.sum_dim(0);
        let moved = (next.clone() - middle.clone()).abs().max().into_scalar::<f32>();
        let size = next.clone().abs().max().into_scalar::<f32>();
        middle = next;
        if moved <= 1e-5 * size {
            break;
        }
    }
    middle.squeeze_dim::<1>(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    /// On a line the geometric median is the median, however far away the last point is.
    #[test]
    fn median_on_a_line() {
        let x = Tensor::<2>::from_floats([[-1.0], [0.0], [1.0], [2.0], [1e4]], &Device::flex());
        let median = geometric_median(&x, 500).into_scalar::<f32>();
        assert!((median - 1.0).abs() < 0.02, "{median}");
    }
}
