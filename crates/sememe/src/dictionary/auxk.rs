//! AuxK: the part of x that the dictionary misses, reconstructed by dead latents, so that they come back to life.
//!
//! With the residual `e = x − x̂`, detached, and the n_dead latents that were
//! silent for T tokens, `ê = Σ` over the `k_aux = min(d/2, n_dead)` largest
//! positive pre-activations among the dead (no `b_dec`: e has it already), the loss is
//!
//! `w · min(n_dead/k_aux, 1) · mean_N Σ_d (e − ê)² / mean_N Σ_d (e − mean e)²`, `w = 1/32`, k_aux there being d/2.
//!
//! Its gradient reaches the encoder and decoder rows of the dead latents that take part.
//!
//! The rows of the dead are gathered, and their codes are a matrix `[N, n_dead]`: k_aux is of the order of
//! n_dead, and where it is larger nothing is selected.
//!
//! # Source
//! Gao et al. 2024, arXiv 2406.04093, appendix A.2; the scale for few dead latents: EleutherAI's and dictionary_learning's code.

use burn::tensor::{Int, Tensor, TensorData};
use sememe_kernels::keep_largest;
use serde::{Deserialize, Serialize};

use super::weights::product_with;
use super::{Batch, Dictionary, DictionaryError, check_number};
use crate::train::Loss;

/// Settings of AuxK.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuxK {
    /// w; 0 means no AuxK.
    pub weight: f64,
    /// k_aux; half of d without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k: Option<usize>,
}

impl Default for AuxK {
    fn default() -> Self {
        Self { weight: 1.0 / 32.0, k: None }
    }
}

impl AuxK {
    /// Refuses a weight below 0 and a k of 0.
    pub(super) fn check(&self, dictionary: &'static str) -> Result<(), DictionaryError> {
        check_number(dictionary, "auxk.weight", self.weight, true)?;
        match self.k {
            Some(0) => {
                Err(DictionaryError { dictionary, key: "auxk.k", got: "0".into(), expected: "give at least 1, or leave it out".into() })
            }
            _ => Ok(()),
        }
    }

    /// The loss for `output [N, d_out]`; `None` when no latent is dead.
    pub fn loss(&self, dictionary: &Dictionary, batch: &Batch, output: &Tensor<2>, dead_after_tokens: usize) -> Option<Loss> {
        let dead = dictionary.memory.dead(dead_after_tokens);
        if self.weight == 0.0 || dead.is_empty() {
            return None;
        }
        let [rows, width] = output.dims();
        let wanted = self.k.unwrap_or(width / 2).max(1);
        let residual = (batch.target.clone() - output.clone()).detach();
        let at: Vec<i32> = dead.iter().map(|&latent| latent as i32).collect();
        let at: Tensor<1, Int> = Tensor::from_data(TensorData::new(at, [dead.len()]), &residual.device());
        let u = product_with(batch.input.clone(), dictionary.centre(), dictionary.w_enc.val().select(0, at.clone()))
            + dictionary.b_enc.val().select(0, at.clone()).unsqueeze_dim::<2>(0);
        let missed = residual.clone() - keep_largest(u, wanted).matmul(dictionary.w_dec.val().select(0, at));
        let centred = residual.clone() - residual.mean_dim(0);
        let variance = (centred.clone() * centred).sum() / rows as f64;
        let value = (missed.clone() * missed).sum() / rows as f64 / (variance + f64::from(f32::MIN_POSITIVE));
        Some(Loss { name: "auxk", value, weight: self.weight * (dead.len() as f64 / wanted as f64).min(1.0) })
    }
}
