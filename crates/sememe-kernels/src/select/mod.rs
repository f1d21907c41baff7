//! The encoder of a sparse dictionary: pre-activations and the choice of active latents in one stream, never holding `[N, n]`.
//!
//! `u = (x − c) Wᵀ + b`, `x [N, d]`, `W [n, d]`; then of u the positive entries (of either sign in the last case) that are
//!
//! - [`Choice::PerRow`]: the k largest of each row (TopK),
//! - [`Choice::WholeBatch`]: the k·N largest of the whole batch (BatchTopK; rows are ragged),
//! - [`Choice::Above`]: above a threshold a latent (JumpReLU),
//! - [`Choice::Over`]: the same with thresholds of either sign (all that a loss can depend on).
//!
//! The product is formed for a block of latents at a time and scanned while
//! it is in the cache, against the best threshold known so far. Ties go to
//! the lower row, then the lower latent. NaN counts as larger than every
//! number, so that it reaches the loss and is seen.
//!
//! # Source
//! TopK: Gao et al. 2024, arXiv 2406.04093, §2.3; BatchTopK: Bussmann et al. 2024, arXiv 2412.06410; JumpReLU: Rajamanoharan et al. 2024, arXiv 2407.14435.

mod bf16;
mod largest;
mod plain;
mod product;
mod scan;
mod stream;

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use burn_flex::Flex;
use serde::{Deserialize, Serialize};

pub use largest::keep_largest;

use crate::Pattern;
use crate::dispatch::{dense, is_fused, values_of};

/// Which of the positive pre-activations are active.
#[derive(Clone, Debug)]
pub enum Choice {
    /// The k largest of each row.
    PerRow(usize),
    /// The k·N largest of all N rows together.
    WholeBatch(usize),
    /// Those above the threshold of their latent, `[n]`.
    Above(Tensor<1>),
    /// Those above the threshold of their latent, `[n]`, which may be below 0: negative entries too.
    Over(Tensor<1>),
}

/// How the encoder's product is formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// In single precision.
    #[default]
    Single,
    /// With operands rounded to bfloat16 and sums in single precision, where the processor has AVX512-BF16; in single
    /// precision elsewhere.
    Bf16,
}

/// The active latents of `x [N, d]` and their pre-activations `[entries]`, which are positive but for [`Choice::Over`].
///
/// `centre [d]`, `weight [n, d]`, `bias [n]`. The values carry no gradient:
/// hand them to [`sparse_encode`](crate::sparse_encode), which gives them one.
///
/// # Panics
/// When shapes do not match, or N·n reaches 2³².
pub fn encode_top(
    x: Tensor<2>,
    centre: Tensor<1>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    choice: &Choice,
    precision: Precision,
) -> (Arc<Pattern>, Tensor<1>) {
    fn without_autodiff<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
        if tensor.device().is_autodiff() { tensor.inner() } else { tensor }
    }
    let (x, centre) = (without_autodiff(x), without_autodiff(centre));
    let (weight, bias) = (without_autodiff(weight), without_autodiff(bias));
    let ([rows, width], n) = (x.dims(), weight.dims()[0]);
    assert_eq!([centre.dims()[0], weight.dims()[1], bias.dims()[0]], [width, width, n], "widths of centre and weight, length of bias");
    assert!((rows as u64) * (n as u64) < 1 << 32, "{rows} rows of {n} latents are too many for one batch");
    let x = x - centre.unsqueeze_dim::<2>(0);
    if is_fused(&x) && is_fused(&weight) && is_fused(&bias) {
        let device = x.device();
        let primitives = (
            x.clone().try_into_primitive::<Flex>(),
            weight.clone().try_into_primitive::<Flex>(),
            bias.clone().try_into_primitive::<Flex>(),
        );
        if let (Ok(x), Ok(weight), Ok(bias)) = primitives {
            let (x, weight, bias) = (dense(x), dense(weight), dense(bias));
            let bf16 = precision == Precision::Bf16 && bf16::is_available();
            let product = product::Product { bf16, x: values_of(&x), weight: values_of(&weight), bias: values_of(&bias), width };
            let (starts, latents, values) = match choice {
                Choice::PerRow(k) => stream::per_row(&product, *k),
                Choice::WholeBatch(k) => stream::whole_batch(&product, *k),
                Choice::Above(thresholds) => {
                    let thresholds: Vec<f32> = thresholds.to_data().iter::<f32>().map(|threshold| threshold.max(0.0)).collect();
                    stream::above(&product, &thresholds)
                }
                Choice::Over(thresholds) => stream::above(&product, &thresholds.to_data().iter::<f32>().collect::<Vec<_>>()),
            };
            let count = values.len();
            return (Arc::new(Pattern::new(starts, latents, n)), Tensor::from_data(TensorData::new(values, [count]), &device));
        }
    }
    plain::encode_top(x, weight, bias, choice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    /// The stream finds the same entries as sorting does, at sizes below, at and above its blocks.
    #[test]
    fn stream_equals_plain() {
        let device = Device::flex();
        let draw = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device);
        for (rows, width, n, k) in [(1, 3, 5, 2), (7, 16, 40, 3), (33, 24, 1500, 9), (130, 8, 4100, 1), (3, 4, 6, 6)] {
            let (x, weight) = (draw([rows, width]), draw([n, width]));
            let bias = draw([1, n]).flatten::<1>(0, 1) * 0.1;
            let centre = draw([1, width]).flatten::<1>(0, 1);
            let thresholds = draw([1, n]).flatten::<1>(0, 1);
            for choice in [Choice::PerRow(k), Choice::WholeBatch(k), Choice::Above(thresholds.clone()), Choice::Over(thresholds)] {
                let (pattern, values) = encode_top(x.clone(), centre.clone(), weight.clone(), bias.clone(), &choice, Precision::Single);
                let (expected, by_sorting) =
                    plain::encode_top(x.clone() - centre.clone().unsqueeze_dim::<2>(0), weight.clone(), bias.clone(), &choice);
                assert_eq!(pattern.starts(), expected.starts(), "{rows} rows, {n} latents, {choice:?}");
                assert_eq!(pattern.latents(), expected.latents(), "{rows} rows, {n} latents, {choice:?}");
                values.into_data().assert_approx_eq::<f32>(&by_sorting.into_data(), Tolerance::absolute(1e-4));
            }
        }
    }

    /// Rounded operands find nearly the same entries.
    #[test]
    fn rounded_choice_is_nearly_the_same() {
        let device = Device::flex();
        let draw = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device);
        let (x, weight) = (draw([130, 64]), draw([1500, 64]));
        let (centre, bias) = (Tensor::zeros([64], &device), Tensor::zeros([1500], &device));
        let threshold = Choice::Over(Tensor::full([1500], 16.0, &device));
        for choice in [Choice::PerRow(20), Choice::WholeBatch(20), threshold] {
            let entries = |precision| {
                let (pattern, _) = encode_top(x.clone(), centre.clone(), weight.clone(), bias.clone(), &choice, precision);
                pattern.row_of_entries().into_iter().zip(pattern.latents().to_vec()).collect::<std::collections::BTreeSet<_>>()
            };
            let (exact, rounded) = (entries(Precision::Single), entries(Precision::Bf16));
            if !matches!(choice, Choice::Over(_)) {
                assert_eq!((exact.len(), rounded.len()), (2600, 2600));
            }
            assert!(exact.intersection(&rounded).count() as f64 > 0.95 * exact.len().max(rounded.len()) as f64, "{choice:?}");
        }
    }

    /// Ties go to the lower latent; entries at or below 0 are never active, even when fewer than k remain.
    #[test]
    fn ties_and_negative_entries() {
        let device = Device::flex();
        let weight = Tensor::<2>::from_floats([[1.0], [1.0], [-1.0], [1.0], [0.0]], &device);
        let encode = |x: f32, choice| {
            let x = Tensor::<2>::from_floats([[x]], &device);
            encode_top(x, Tensor::zeros([1], &device), weight.clone(), Tensor::zeros([5], &device), &choice, Precision::Single)
                .0
                .latents()
                .to_vec()
        };
        assert_eq!(encode(2.0, Choice::PerRow(2)), [0, 1]);
        assert_eq!(encode(2.0, Choice::WholeBatch(2)), [0, 1]);
        assert_eq!(encode(-2.0, Choice::PerRow(2)), [2]);
        assert_eq!(encode(-2.0, Choice::WholeBatch(4)), [2]);
        let thresholds = Tensor::<1>::from_floats([-1.0, -3.0, 2.0, 0.0, -0.5], &device);
        assert!(encode(-2.0, Choice::Above(thresholds.clone())).is_empty());
        assert_eq!(encode(-2.0, Choice::Over(thresholds)), [1, 4]);
    }

    #[test]
    fn nan_is_seen() {
        let device = Device::flex();
        let x = Tensor::<2>::from_floats([[f32::NAN, 1.0]], &device);
        let weight = Tensor::<2>::from_floats([[1.0, 0.0], [0.0, 1.0]], &device);
        let (_, values) =
            encode_top(x, Tensor::zeros([2], &device), weight, Tensor::zeros([2], &device), &Choice::PerRow(1), Precision::Single);
        assert!(values.into_scalar::<f32>().is_nan());
    }
}
