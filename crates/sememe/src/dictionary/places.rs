//! Codes of which any number of latents may be active: as a list when few are, as a matrix when many are.
//!
//! A member names a floor f, one number a latent, such that no loss depends on
//! `u = (x − b_dec) W_encᵀ + b_enc` where `u ≤ f`: 0 for ReLU and for a gate,
//! `θ − ε/2` for a JumpReLU (the rectangle around θ has a gradient in θ). The
//! losses are then the same, and so are their gradients, whether they are
//! formed at the entries with `u > f` alone or everywhere.
//!
//! Which is faster is a matter of the share ρ of such entries. With the
//! encoder's product as the unit, a step costs
//!
//! - everywhere: [`DENSE_STEP`], for five products of this size and the passes over `[N, n]` between them;
//! - at the list: `SPARSE_STEP + SPARSE_PER_ENTRY · ρ`, for one product, and a decode, a dot and two outer products at each entry,
//!   which run from memory and not from registers.
//!
//! Neither depends on N, n or d to first order, so neither does the share from which on the matrix is
//! cheaper, `ρ* = (DENSE_STEP − SPARSE_STEP)/SPARSE_PER_ENTRY`. Half of the latents are active
//! at the start of training, and one in a hundred later. ρ is estimated from
//! [`SAMPLE`] rows, evenly spread over the batch: a function of batch and
//! weights alone, so that a resumed run takes the same way.
//!
//! The products behind the three numbers are timed by `crates/sememe-kernels/examples/sparse_times.rs`.

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData};
use sememe_kernels::{Choice, Pattern, Precision, encode_top, sparse_encode, sparse_spread};

use super::{Codes, Dictionary};

/// A step on `[N, n]`, in encoder products.
const DENSE_STEP: f64 = 7.5;
/// A step on a list without entries, in encoder products.
const SPARSE_STEP: f64 = 1.25;
/// What a list of all entries would add, in encoder products.
const SPARSE_PER_ENTRY: f64 = 40.0;
/// Rows from which ρ is estimated.
const SAMPLE: usize = 32;

/// ρ*: the share of entries from which on a matrix is cheaper than a list.
pub const DENSE_FROM: f64 = (DENSE_STEP - SPARSE_STEP) / SPARSE_PER_ENTRY;

/// The entries of `[N, n]` at which something is computed.
#[expect(clippy::large_enum_variant, reason = "one a step, never many at once")]
pub(super) enum Places {
    /// A list of them, and `u` there where the choice has computed it exactly.
    Few { pattern: Arc<Pattern>, known: Option<Tensor<1>> },
    /// All.
    All,
}

impl Places {
    /// A number a latent, `[n]`, such that it can be combined with values at the places: `[entries, 1]` or `[1, n]`.
    pub(super) fn spread(&self, vector: Tensor<1>) -> Tensor<2> {
        match self {
            Self::Few { pattern, .. } => sparse_spread(vector, pattern).unsqueeze_dim(1),
            Self::All => vector.unsqueeze_dim(0),
        }
    }

    /// Codes of these values at the places.
    pub(super) fn codes(&self, values: Tensor<2>) -> Codes {
        match self {
            Self::Few { pattern, .. } => Codes::Sparse { values: values.squeeze_dim(1), pattern: pattern.clone() },
            Self::All => Codes::Dense(values),
        }
    }
}

impl Dictionary {
    /// The places with `u > floor`, or all where that is cheaper: `x [N, d_in]`, `floor [n]`.
    pub(super) fn places_above(&self, x: &Tensor<2>, floor: Tensor<1>) -> Places {
        let choice = Choice::Over(floor.detach());
        let chosen = |x: Tensor<2>, precision| encode_top(x, self.centre(), self.w_enc.val(), self.b_enc.val(), &choice, precision);
        let (rows, n) = (x.dims()[0], self.n());
        let sample = rows.min(SAMPLE);
        let spread: Vec<i32> = (0..sample).map(|at| (at * rows / sample) as i32).collect();
        let spread: Tensor<1, Int> = Tensor::from_data(TensorData::new(spread, [sample]), &x.device());
        let found = chosen(x.clone().select(0, spread), self.precision).0.entries();
        if found as f64 >= self.dense_from * (sample * n) as f64 {
            return Places::All;
        }
        let (pattern, known) = chosen(x.clone(), self.precision);
        Places::Few { pattern, known: (self.precision == Precision::Single).then_some(known) }
    }

    /// u at the places: `[entries, 1]` or `[N, n]`.
    pub(super) fn pre_activations_at(&self, x: Tensor<2>, places: &Places) -> Tensor<2> {
        match places {
            Places::Few { pattern, known } => {
                sparse_encode(x, self.centre(), self.w_enc.val(), self.b_enc.val(), pattern, known.clone()).unsqueeze_dim(1)
            }
            Places::All => self.pre_activations(x),
        }
    }

    /// `u − b_enc` at the places: `[entries, 1]` or `[N, n]`.
    pub(super) fn product_at(&self, x: Tensor<2>, places: &Places) -> Tensor<2> {
        match places {
            Places::Few { pattern, known } => {
                let zero = self.b_enc.val().detach().zeros_like();
                let known = known.as_ref().map(|u| u.clone() - sparse_spread(untracked(self.b_enc.val()), pattern));
                sparse_encode(x, self.centre(), self.w_enc.val(), zero, pattern, known).unsqueeze_dim(1)
            }
            Places::All => self.product(x),
        }
    }
}

fn untracked(vector: Tensor<1>) -> Tensor<1> {
    if vector.device().is_autodiff() { vector.inner() } else { vector }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share at which the two costs meet lies between a trained dictionary's and an untrained one's.
    #[test]
    fn costs_meet_between_one_in_a_hundred_and_a_half() {
        let sparse = |share: f64| SPARSE_STEP + SPARSE_PER_ENTRY * share;
        assert!((sparse(DENSE_FROM) - DENSE_STEP).abs() < 1e-12);
        assert!(sparse(0.01) < 2.0 && sparse(0.5) > DENSE_STEP);
    }
}
