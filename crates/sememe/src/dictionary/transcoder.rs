//! Transcoder: any dictionary whose input and output are different activations; with a linear skip path, a skip transcoder.
//!
//! `z = σ(x W_encᵀ + b_enc)`, `ŷ = z W_dec + b_dec (+ x W_skipᵀ)`, loss as of the base with y in
//! place of x. Nothing is subtracted before the encoder, since `b_dec` lives
//! in the output; `W_skip` begins at 0.
//!
//! # Source
//! Dunefsky et al. 2024, arXiv 2406.11944, §3; skip: Paulo et al. 2025, arXiv 2501.18823.

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Batch, Codes, Dictionary, DictionaryConfig, DictionaryError, DictionaryKind, Draft, Form, TopK, Widths};
use crate::train::StepContext;

/// Config of a transcoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Transcoder {
    /// The dictionary that it is.
    pub base: Box<DictionaryKind>,
    /// Whether there is a linear path beside it.
    pub skip: bool,
}

impl Default for Transcoder {
    fn default() -> Self {
        Self { base: Box::new(DictionaryKind::TopK(TopK::default())), skip: false }
    }
}

impl Member for Transcoder {
    const ABOUT: &'static str = "any dictionary from one activation to another, with or without a linear skip";
    const SOURCE: &'static str = "Dunefsky et al. 2024, arXiv 2406.11944; Paulo et al. 2025, arXiv 2501.18823";
}

/// Refuses a wrapper within a wrapper.
pub(super) fn check_base(dictionary: &'static str, base: &DictionaryKind) -> Result<(), DictionaryError> {
    match base {
        DictionaryKind::Transcoder(_) | DictionaryKind::Crosscoder(_) => Err(DictionaryError {
            dictionary,
            key: "base",
            got: format!("`{}`", base.tag()),
            expected: "give a dictionary that is not itself made of another".into(),
        }),
        _ => Ok(()),
    }
}

impl DictionaryConfig for Transcoder {
    fn n(&self) -> usize {
        self.base.member().n()
    }

    fn check(&self, widths: Widths) -> Result<(), DictionaryError> {
        check_base("transcoder", &self.base)?;
        self.base.member().check(widths)
    }

    fn form(&self) -> Form {
        Form { centred: false, skip: self.skip, ..self.base.member().form() }
    }

    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes {
        self.base.member().codes(dictionary, x)
    }

    fn draft(&self, dictionary: &Dictionary, batch: &Batch, at: &StepContext) -> Draft {
        self.base.member().draft(dictionary, batch, at)
    }

    fn dead_after_tokens(&self) -> usize {
        self.base.member().dead_after_tokens()
    }

    fn threshold_momentum(&self) -> f64 {
        self.base.member().threshold_momentum()
    }
}
