//! A pair of dictionaries around a frozen layer of a language model, with a sparse Jacobian between their latents.
//!
//! One dictionary codes what enters the layer (`x`), the other what leaves it
//! (`y = layer(x)`, of the true x). Between their latents lies the map
//!
//! `f = encode_y ∘ layer ∘ decode_x`,
//!
//! whose Jacobian at a token is a block of active latents `J[b, a] = ∂u_b/∂z_a`
//! (all else is 0). The loss is
//!
//! `‖x − x̂‖² + ‖y − ŷ‖² + weight · R(J)`, means over tokens,
//!
//! with R an element-wise surrogate of the number of entries, summed over the
//! block: dependency sparsity of the computation that the layer carries out.
//! With weight 0 it is two dictionaries trained side by side.
//!
//! | file | what |
//! |---|---|
//! | `layer.rs` | the frozen layer: gated or not, with norms before and after it and the residual path |
//! | `block.rs` | the exact block in closed form; `cost.rs` chooses how its matrices are formed |
//! | `attention.rs` | the blocks of an attention layer |
//! | `crates/sememe/src/block/term.rs` | the penalty's config: surrogate, normalisation, subsets, schedule |
//! | `train.rs` | training |
//! | `metric/` | counts of entries, kurtosis, ablations, shapes of latent-to-latent functions |
//!
//! # Source
//! Farnik, Lawson, Houghton & Aitchison 2025, arXiv 2502.18147.

mod attention;
mod block;
pub mod cost;
mod layer;
pub mod metric;
mod train;

use burn::module::Module;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use attention::{Attention, attention_jacobian};
pub use block::blocks;
pub use layer::{FrozenNorm, Layer};
pub use train::{PairFit, resume, start, train};

pub use crate::block::{Blocks, JacobianTerm, JacobianTermError, Normalise};
use crate::dictionary::{Dictionary, DictionaryError, DictionaryKind, TopK, Widths};

/// A pair's setting that makes no sense.
#[derive(Debug, Error, PartialEq)]
pub enum PairError {
    /// Of a dictionary.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
    /// Of the penalty.
    #[error(transparent)]
    Term(#[from] JacobianTermError),
}

/// `[pair]` of a config: the two dictionaries and the penalty between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PairConfig {
    /// The dictionary of what enters the layer: `topk` or `batchtopk`.
    pub input: DictionaryKind,
    /// The dictionary of what leaves it; like `input` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<DictionaryKind>,
    /// The penalty on the Jacobian.
    pub jacobian: JacobianTerm,
}

impl Default for PairConfig {
    fn default() -> Self {
        Self { input: DictionaryKind::TopK(TopK::default()), output: None, jacobian: JacobianTerm::default() }
    }
}

impl PairConfig {
    /// The kind of the output's dictionary.
    pub fn output(&self) -> &DictionaryKind {
        self.output.as_ref().unwrap_or(&self.input)
    }

    /// Refuses settings that make no sense for activations of these widths.
    ///
    /// # Errors
    /// The first setting at fault.
    pub fn check(&self, input: usize, output: usize) -> Result<(), PairError> {
        for (kind, width) in [(&self.input, input), (self.output(), output)] {
            if !matches!(kind, DictionaryKind::TopK(_) | DictionaryKind::BatchTopK(_)) {
                return Err(DictionaryError {
                    dictionary: "jacobian",
                    key: "input",
                    got: format!("`{}`", kind.tag()),
                    expected: "give `topk` or `batchtopk`: a block needs a small number of active latents".into(),
                }
                .into());
            }
            kind.member().check(Widths::same(width))?;
        }
        Ok(self.jacobian.check()?)
    }
}

/// Two dictionaries around a layer.
#[derive(Module, Debug)]
pub struct Pair {
    /// Of what enters.
    pub input: Dictionary,
    /// Of what leaves.
    pub output: Dictionary,
}

impl Pair {
    /// An untrained pair for activations of widths `input` and `output`.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn new(config: &PairConfig, input: usize, output: usize, seed: u64, device: &Device) -> Result<Self, PairError> {
        config.check(input, output)?;
        Ok(Self {
            input: Dictionary::new(config.input.clone(), Widths::same(input), seed, device)?,
            output: Dictionary::new(config.output().clone(), Widths::same(output), seed.wrapping_add(1), device)?,
        })
    }

    /// The pair without autodiff, for evaluation.
    #[must_use]
    pub fn evaluated(&self) -> Self {
        self.valid()
    }
}

#[cfg(test)]
mod tests;
