//! Crosscoder: one set of latents for the activations of several layers, which stand side by side.
//!
//! With L layers of width d the input is `x [N, L·d]`, the decoder `W_dec [n, L·d]`, and the norm
//! that weighs a latent in a penalty is `Σ_l ‖W_dec,i^l‖`: a latent that lives
//! in one layer alone is cheaper than one that is spread over all.
//! Nothing is subtracted before the encoder. Decoder rows have norm 1 over all
//! layers together where the base keeps unit rows.
//!
//! # Source
//! Lindsey et al. 2024, *Sparse crosscoders for cross-layer features and model diffing*.

use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::wrapper::Wrapper;
use super::{DictionaryError, DictionaryKind, Form, Relu, Widths};

/// Config of a crosscoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Crosscoder {
    /// The dictionary that it is.
    pub base: Box<DictionaryKind>,
    /// L.
    pub layers: usize,
}

impl Default for Crosscoder {
    fn default() -> Self {
        Self { base: Box::new(DictionaryKind::Relu(Relu::default())), layers: 2 }
    }
}

impl Member for Crosscoder {
    const ABOUT: &'static str = "one set of latents for the activations of several layers";
    const SOURCE: &'static str = "Lindsey et al. 2024";
}

impl Wrapper for Crosscoder {
    const TAG: &'static str = "crosscoder";

    fn base(&self) -> &DictionaryKind {
        &self.base
    }

    fn form_of(&self, base: Form) -> Form {
        Form { centred: false, layers: self.layers, ..base }
    }

    fn check_own(&self, widths: Widths) -> Result<(), DictionaryError> {
        if self.layers == 0 || !widths.output.is_multiple_of(self.layers) || !widths.input.is_multiple_of(self.layers) {
            return Err(DictionaryError {
                dictionary: "crosscoder",
                key: "layers",
                got: self.layers.to_string(),
                expected: format!("give a number that divides the width {} of all layers together", widths.output),
            });
        }
        Ok(())
    }
}
