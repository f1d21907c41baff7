//! BatchTopK: the k·N largest pre-activations of the whole batch are active, so that a token may have more or fewer than k.
//!
//! After training a token is encoded alone, by a threshold θ on u: the running
//! mean of the smallest positive activation of a batch. It is then a JumpReLU
//! with the same θ for all latents, and is saved as one.
//!
//! # Source
//! Bussmann, Leask & Nanda 2024, arXiv 2412.06410, §3.

use burn::tensor::Tensor;
use sememe_kernels::Choice;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::topk::draft_of;
use super::{
    AuxK, Batch, Codes, DEAD_AFTER_TOKENS, Dictionary, DictionaryConfig, DictionaryError, DictionaryKind, Draft, Form, JumpRelu, Widths,
    check_common, check_fraction, check_k,
};
use crate::train::StepContext;

/// Config of BatchTopK.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchTopK {
    /// n, the number of latents.
    pub n: usize,
    /// Active latents a token, on average.
    pub k: usize,
    /// What revives dead latents.
    pub auxk: AuxK,
    /// T: tokens after which a silent latent is dead.
    pub dead_after_tokens: usize,
    /// How much of the threshold's running mean a step keeps.
    pub threshold_momentum: f64,
}

impl Default for BatchTopK {
    fn default() -> Self {
        Self { n: 16_384, k: 32, auxk: AuxK::default(), dead_after_tokens: DEAD_AFTER_TOKENS, threshold_momentum: 0.999 }
    }
}

impl Member for BatchTopK {
    const ABOUT: &'static str = "the k·N largest pre-activations of the batch; a threshold after training";
    const SOURCE: &'static str = "Bussmann et al. 2024, arXiv 2412.06410";
}

impl DictionaryConfig for BatchTopK {
    fn n(&self) -> usize {
        self.n
    }

    fn check(&self, widths: Widths) -> Result<(), DictionaryError> {
        check_common("batchtopk", self.n, self.dead_after_tokens, widths)?;
        check_k("batchtopk", self.k, self.n)?;
        check_fraction("batchtopk", "threshold_momentum", self.threshold_momentum)?;
        self.auxk.check("batchtopk")
    }

    fn form(&self) -> Form {
        Form::default()
    }

    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes {
        codes_by_threshold(dictionary, x, self.k)
    }

    fn draft(&self, dictionary: &Dictionary, batch: &Batch, _at: &StepContext) -> Draft {
        let draft = draft_of(&Choice::WholeBatch(self.k), &self.auxk, self.dead_after_tokens, dictionary, batch);
        Draft { smallest: smallest(&draft.codes), ..draft }
    }

    fn dead_after_tokens(&self) -> usize {
        self.dead_after_tokens
    }

    fn threshold_momentum(&self) -> f64 {
        self.threshold_momentum
    }
}

/// The smallest active value.
pub(super) fn smallest(codes: &Codes) -> Option<f64> {
    let (_, values) = codes.active();
    values.into_iter().reduce(f32::min).map(f64::from)
}

/// Codes by the running threshold; the k largest of each token while there is none.
pub(super) fn codes_by_threshold(dictionary: &Dictionary, x: Tensor<2>, k: usize) -> Codes {
    let choice = match dictionary.memory.threshold() {
        Some(threshold) => Choice::Above(Tensor::full([dictionary.n()], threshold, &x.device())),
        None => Choice::PerRow(k),
    };
    dictionary.choose(x, &choice)
}

impl Dictionary {
    /// The same dictionary with its running threshold as a JumpReLU's θ; itself where there is none.
    #[must_use]
    pub fn as_jumprelu(&self) -> Self {
        let (k, dead_after_tokens) = match &self.kind {
            DictionaryKind::BatchTopK(config) => (config.k, config.dead_after_tokens),
            DictionaryKind::Matryoshka(config) => (config.k, config.dead_after_tokens),
            _ => return self.clone(),
        };
        let Some(threshold) = self.memory.threshold() else { return self.clone() };
        let config = JumpRelu { n: self.n(), target_l0: k as f64, dead_after_tokens, ..JumpRelu::default() };
        let threshold = Tensor::full([self.n()], threshold, &self.b_enc.val().device());
        Self { threshold: Some(burn::module::Param::from_tensor(threshold)), kind: DictionaryKind::JumpRelu(config), ..self.clone() }
    }
}
