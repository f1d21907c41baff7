//! Transcoder: any dictionary whose input and output are different activations; with a linear skip path, a skip transcoder.
//!
//! `z = σ(x W_encᵀ + b_enc)`, `ŷ = z W_dec + b_dec (+ x W_skipᵀ)`, loss as of the base with y in
//! place of x. Nothing is subtracted before the encoder, since `b_dec` lives
//! in the output; `W_skip` begins at 0.
//!
//! # Source
//! Dunefsky et al. 2024, arXiv 2406.11944, §3; skip: Paulo et al. 2025, arXiv 2501.18823.

use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::wrapper::Wrapper;
use super::{DictionaryKind, Form, TopK};

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

impl Wrapper for Transcoder {
    const TAG: &'static str = "transcoder";

    fn base(&self) -> &DictionaryKind {
        &self.base
    }

    fn form_of(&self, base: Form) -> Form {
        Form { centred: false, skip: self.skip, ..base }
    }
}
