//! ReLU: the classical sparse autoencoder, with L1 weighted by the decoder's norms.
//!
//! `z = ReLU(u)`; loss `mean_N Σ_d (x − x̂)² + λ w(t) · mean_N Σ_i z_i ‖W_dec,i‖`,
//! w(t) rising linearly from 0 to 1. The decoder is free: scaling z down and
//! W_dec up leaves the penalty as it is.
//!
//! # Source
//! Bricken et al. 2023; the weighting by norms: Conerly et al. 2024, *Update on how we train SAEs*.

use burn::tensor::{Tensor, activation};
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::places::Places;
use super::topk::reconstruction;
use super::{
    Batch, Codes, DEAD_AFTER_TOKENS, Dictionary, DictionaryConfig, DictionaryError, Draft, Form, Widths, check_common, check_fraction,
    check_number,
};
use crate::train::{Loss, StepContext};

/// Config of the ReLU dictionary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Relu {
    /// n, the number of latents.
    pub n: usize,
    /// λ.
    pub weight: f64,
    /// Fraction of the steps over which λ rises from 0.
    pub warm_up_fraction: f64,
    /// T: tokens after which a silent latent is dead.
    pub dead_after_tokens: usize,
}

impl Default for Relu {
    fn default() -> Self {
        Self { n: 16_384, weight: 5.0, warm_up_fraction: 0.05, dead_after_tokens: DEAD_AFTER_TOKENS }
    }
}

impl Member for Relu {
    const ABOUT: &'static str = "ReLU with L1 weighted by the decoder's norms";
    const SOURCE: &'static str = "Bricken et al. 2023; Conerly et al. 2024";
}

/// w(t): from 0 to 1 over the first `fraction` of the steps.
pub(super) fn warm_up(at: &StepContext, fraction: f64) -> f64 {
    let rise = (fraction * at.steps as f64).max(1.0);
    ((at.step + 1) as f64 / rise).min(1.0)
}

/// `ReLU(u)` and the places at which it is formed.
pub(super) fn rectified(dictionary: &Dictionary, x: Tensor<2>) -> (Places, Tensor<2>) {
    let places = dictionary.places_above(&x, dictionary.b_enc.val().zeros_like());
    let z = activation::relu(dictionary.pre_activations_at(x, &places));
    (places, z)
}

/// `mean_N Σ_i z_i ‖W_dec,i‖`, as a product with the norms.
pub(super) fn l1(dictionary: &Dictionary, codes: &Codes) -> Tensor<1> {
    let per_token = codes.times(dictionary.decoder_norms().unsqueeze_dim::<2>(1));
    let rows = per_token.dims()[0] as f64;
    per_token.sum() / rows
}

impl DictionaryConfig for Relu {
    fn n(&self) -> usize {
        self.n
    }

    fn check(&self, widths: Widths) -> Result<(), DictionaryError> {
        check_common("relu", self.n, self.dead_after_tokens, widths)?;
        check_number("relu", "weight", self.weight, true)?;
        check_fraction("relu", "warm_up_fraction", self.warm_up_fraction)
    }

    fn form(&self) -> Form {
        Form { unit_rows: false, ..Form::default() }
    }

    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes {
        let (places, z) = rectified(dictionary, x);
        places.codes(z)
    }

    fn draft(&self, dictionary: &Dictionary, batch: &Batch, at: &StepContext) -> Draft {
        let codes = self.codes(dictionary, batch.input.clone());
        let output = dictionary.decode(&codes, &batch.input);
        let l1 = Loss { name: "l1", value: l1(dictionary, &codes), weight: self.weight * warm_up(at, self.warm_up_fraction) };
        Draft { losses: vec![reconstruction(&batch.target, &output), l1], output, codes, smallest: None, penalty_scale: None }
    }

    fn dead_after_tokens(&self) -> usize {
        self.dead_after_tokens
    }
}
