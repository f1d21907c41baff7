//! TopK: the k largest pre-activations of each token are active, and AuxK revives the dead.
//!
//! `z = ReLU(TopK_k(u))`, `u = (x − b_dec) W_encᵀ + b_enc`; loss `mean_N Σ_d (x − x̂)² + AuxK`.
//!
//! # Source
//! Gao et al. 2024, arXiv 2406.04093, §2.3 and appendix A.

use burn::tensor::Tensor;
use sememe_kernels::Choice;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{
    AuxK, Batch, Codes, DEAD_AFTER_TOKENS, Dictionary, DictionaryConfig, DictionaryError, Draft, Form, Widths, check_common, check_k,
};
use crate::train::{Loss, StepContext};

/// Config of TopK.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopK {
    /// n, the number of latents.
    pub n: usize,
    /// Active latents a token.
    pub k: usize,
    /// What revives dead latents.
    pub auxk: AuxK,
    /// T: tokens after which a silent latent is dead.
    pub dead_after_tokens: usize,
}

impl Default for TopK {
    fn default() -> Self {
        Self { n: 16_384, k: 32, auxk: AuxK::default(), dead_after_tokens: DEAD_AFTER_TOKENS }
    }
}

impl Member for TopK {
    const ABOUT: &'static str = "the k largest pre-activations of each token";
    const SOURCE: &'static str = "Gao et al. 2024, arXiv 2406.04093";
}

impl DictionaryConfig for TopK {
    fn n(&self) -> usize {
        self.n
    }

    fn check(&self, widths: Widths) -> Result<(), DictionaryError> {
        check_common("topk", self.n, self.dead_after_tokens, widths)?;
        check_k("topk", self.k, self.n)?;
        self.auxk.check("topk")
    }

    fn form(&self) -> Form {
        Form::default()
    }

    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes {
        dictionary.choose(x, &Choice::PerRow(self.k))
    }

    fn draft(&self, dictionary: &Dictionary, batch: &Batch, _at: &StepContext) -> Draft {
        draft_of(&Choice::PerRow(self.k), &self.auxk, self.dead_after_tokens, dictionary, batch)
    }

    fn dead_after_tokens(&self) -> usize {
        self.dead_after_tokens
    }
}

/// `mean_N Σ_d (x − x̂)²`.
pub(super) fn reconstruction(target: &Tensor<2>, output: &Tensor<2>) -> Loss {
    let error = target.clone() - output.clone();
    let rows = error.dims()[0] as f64;
    Loss { name: "reconstruction", value: (error.clone() * error).sum() / rows, weight: 1.0 }
}

/// Reconstruction and AuxK with the latents that `choice` makes active.
pub(super) fn draft_of(choice: &Choice, auxk: &AuxK, dead_after_tokens: usize, dictionary: &Dictionary, batch: &Batch) -> Draft {
    let codes = dictionary.choose(batch.input.clone(), choice);
    let output = dictionary.decode(&codes, &batch.input);
    let mut losses = vec![reconstruction(&batch.target, &output)];
    losses.extend(auxk.loss(dictionary, batch, &output, dead_after_tokens));
    Draft { losses, output, codes, smallest: None, penalty_scale: None }
}
