//! Dictionaries of model activations: overcomplete sparse codes with a linear decoder.
//!
//! `z = σ((x − b_dec) W_encᵀ + b_enc)`, `x̂ = z W_dec + b_dec`, with N tokens of
//! width d, n latents, `W_enc [n, d]`, `W_dec [n, d]` (a row a latent, in both).
//! (`nonlinear` adds a hidden layer to the decoder.) A member says what σ is and what stands in the loss beside
//! `mean_N Σ_d (x − x̂)²`; weights, training, folding and metrics are shared.
//!
//! To add a dictionary: its own file with a config that implements
//! [`DictionaryConfig`], and one line in [`DictionaryKind`].

mod auxk;
mod batch;
mod batchtopk;
mod centre;
mod codes;
mod crosscoder;
mod gated;
mod jumprelu;
mod matryoshka;
mod memory;
pub mod metric;
mod nonlinear;
mod p_anneal;
mod places;
mod relu;
mod scale;
mod topk;
mod train;
mod transcoder;
mod weights;
mod wrapper;

use thiserror::Error;

pub use auxk::AuxK;
pub use batch::{Batch, BatchError, Batches, Repeat};
pub use batchtopk::BatchTopK;
pub use centre::{Centre, geometric_median};
pub use codes::Codes;
pub use crosscoder::Crosscoder;
pub use gated::Gated;
pub use jumprelu::{JumpRelu, L0Penalty};
pub use matryoshka::Matryoshka;
pub use memory::{MOST_TOKENS, Memory};
pub use nonlinear::Nonlinear;
pub use p_anneal::PAnneal;
pub use places::DENSE_FROM;
pub use relu::Relu;
pub use scale::ScaleEstimate;
pub use topk::TopK;
pub use train::{DictionaryPlan, DictionaryTrainError, resume, start, train};
pub(crate) use train::{lifted_batch, without_autodiff};
pub use transcoder::Transcoder;
pub use weights::{Dictionary, Form, HiddenDecoder, RawWeights, Widths};

use crate::train::{Loss, StepContext};
use burn::tensor::Tensor;

/// A setting that no dictionary can have.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("dictionary `{dictionary}`: `{key}` is {got}; {expected}")]
pub struct DictionaryError {
    /// The member's tag.
    pub dictionary: &'static str,
    /// The key at fault.
    pub key: &'static str,
    /// Its value.
    pub got: String,
    /// What it may be.
    pub expected: String,
}

/// What a member makes of a batch in training.
pub struct Draft {
    /// The reconstruction and whatever stands beside it.
    pub losses: Vec<Loss>,
    /// x̂ `[N, d_out]`, with gradients.
    pub output: Tensor<2>,
    /// z, without gradient: who was active.
    pub codes: Codes,
    /// The smallest active value, for members whose threshold is its running mean.
    pub smallest: Option<f64>,
    /// The new factor on the penalty, for members that adapt it.
    pub penalty_scale: Option<f64>,
}

/// One kind of dictionary: its code and its loss.
pub trait DictionaryConfig {
    /// n, the number of latents.
    fn n(&self) -> usize;

    /// Refuses settings that make no sense for these widths.
    fn check(&self, widths: Widths) -> Result<(), DictionaryError>;

    /// Which weights there are beside encoder and decoder, and what constrains them.
    fn form(&self) -> Form;

    /// The pre-activations' codes as they are after training: `x [N, d]`.
    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes;

    /// The losses of a batch in training.
    fn draft(&self, dictionary: &Dictionary, batch: &Batch, at: &StepContext) -> Draft;

    /// Tokens after which a silent latent counts as dead.
    fn dead_after_tokens(&self) -> usize;

    /// How fast the running mean of the smallest active value forgets a step.
    fn threshold_momentum(&self) -> f64 {
        0.999
    }
}

sememe_truth::catalogue! {
    /// Every dictionary, by the tag that configs use.
    pub enum DictionaryKind: DictionaryConfig {
        "topk" => TopK(topk::TopK),
        "batchtopk" => BatchTopK(batchtopk::BatchTopK),
        "matryoshka" => Matryoshka(matryoshka::Matryoshka),
        "jumprelu" => JumpRelu(jumprelu::JumpRelu),
        "relu" => Relu(relu::Relu),
        "p-anneal" => PAnneal(p_anneal::PAnneal),
        "gated" => Gated(gated::Gated),
        "nonlinear" => Nonlinear(nonlinear::Nonlinear),
        "transcoder" => Transcoder(transcoder::Transcoder),
        "crosscoder" => Crosscoder(crosscoder::Crosscoder),
    }
}

/// A default window after which a silent latent counts as dead.
const DEAD_AFTER_TOKENS: usize = 10_000_000;

/// Refuses what no member can have: no latents, or a window of silence that cannot be counted.
fn check_common(dictionary: &'static str, n: usize, dead_after_tokens: usize, widths: Widths) -> Result<(), DictionaryError> {
    let error = |key: &'static str, got: usize, expected: String| Err(DictionaryError { dictionary, key, got: got.to_string(), expected });
    if n == 0 {
        return error("n", n, "give at least 1 latent".into());
    }
    if u32::try_from(n).is_err() {
        return error("n", n, format!("give at most {} latents", u32::MAX));
    }
    if widths.input == 0 || widths.output == 0 {
        return error("d", 0, "the activations have no dimensions".into());
    }
    if dead_after_tokens == 0 || dead_after_tokens > MOST_TOKENS {
        return error("dead_after_tokens", dead_after_tokens, format!("give a number of tokens from 1 to {MOST_TOKENS}"));
    }
    Ok(())
}

/// Refuses a k that is 0 or above n.
fn check_k(dictionary: &'static str, k: usize, n: usize) -> Result<(), DictionaryError> {
    let error = |expected: String| Err(DictionaryError { dictionary, key: "k", got: k.to_string(), expected });
    match k {
        0 => error("give at least 1 active latent".into()),
        k if k > n => error(format!("give at most n = {n}")),
        _ => Ok(()),
    }
}

/// Refuses a number that is not finite or below 0 (or not above 0).
fn check_number(dictionary: &'static str, key: &'static str, value: f64, zero_allowed: bool) -> Result<(), DictionaryError> {
    let fine = value.is_finite() && (value > 0.0 || zero_allowed && value == 0.0);
    let expected = if zero_allowed { "give a finite number, 0 or above" } else { "give a finite number above 0" };
    if fine { Ok(()) } else { Err(DictionaryError { dictionary, key, got: value.to_string(), expected: expected.into() }) }
}

/// Refuses a number outside [0, 1].
fn check_fraction(dictionary: &'static str, key: &'static str, value: f64) -> Result<(), DictionaryError> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(DictionaryError { dictionary, key, got: value.to_string(), expected: "give a fraction from 0 to 1".into() })
    }
}

#[cfg(test)]
mod tests;
