//! Gated: one path says which latents are active, another how strongly.
//!
//! With `v = (x − b_dec) W_encᵀ`: gate `π = v + b_gate`, magnitude `μ = exp(r) ⊙ v + b_mag`,
//! `z = 1[π > 0] ⊙ ReLU(μ)`. Loss
//! `mean_N Σ_d (x − x̂)² + λ w(t) · mean_N Σ_i ReLU(π_i) ‖W_dec,i‖ + mean_N ‖x − (ReLU(π) W_dec* + b_dec*)‖²`,
//! the decoder marked * being detached. `b_gate` is the field `b_enc`.
//!
//! # Source
//! Rajamanoharan et al. 2024, arXiv 2404.16014, eqs. 6–8.

use burn::tensor::{Tensor, activation};
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::relu::{l1, warm_up};
use super::topk::reconstruction;
use super::{
    Batch, Codes, DEAD_AFTER_TOKENS, Dictionary, DictionaryConfig, DictionaryError, Draft, Form, Widths, check_common, check_fraction,
    check_number,
};
use crate::train::{Loss, StepContext};

/// Config of the gated dictionary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gated {
    /// n, the number of latents.
    pub n: usize,
    /// λ.
    pub weight: f64,
    /// Fraction of the steps over which λ rises from 0.
    pub warm_up_fraction: f64,
    /// T: tokens after which a silent latent is dead.
    pub dead_after_tokens: usize,
}

impl Default for Gated {
    fn default() -> Self {
        Self { n: 16_384, weight: 5.0, warm_up_fraction: 0.05, dead_after_tokens: DEAD_AFTER_TOKENS }
    }
}

impl Member for Gated {
    const ABOUT: &'static str = "a gate that chooses latents and a tied path for their magnitudes";
    const SOURCE: &'static str = "Rajamanoharan et al. 2024, arXiv 2404.16014";
}

/// The codes `(ReLU(π), z)`.
fn gate(dictionary: &Dictionary, x: Tensor<2>) -> (Codes, Codes) {
    let places = dictionary.places_above(&x, dictionary.b_enc.val().zeros_like());
    let v = dictionary.product_at(x, &places);
    let row = |vector: Tensor<1>| places.spread(vector);
    let pi = v.clone() + row(dictionary.b_enc.val());
    let open = pi.clone().detach().greater_elem(0.0).float();
    let scaled = match &dictionary.r_mag {
        Some(r) => v * row(r.val().exp()),
        None => v,
    };
    let mu = match &dictionary.b_mag {
        Some(b) => scaled + row(b.val()),
        None => scaled,
    };
    (places.codes(activation::relu(pi)), places.codes(activation::relu(mu) * open))
}

impl DictionaryConfig for Gated {
    fn n(&self) -> usize {
        self.n
    }

    fn check(&self, widths: Widths) -> Result<(), DictionaryError> {
        check_common("gated", self.n, self.dead_after_tokens, widths)?;
        check_number("gated", "weight", self.weight, true)?;
        check_fraction("gated", "warm_up_fraction", self.warm_up_fraction)
    }

    fn form(&self) -> Form {
        Form { gate: true, ..Form::default() }
    }

    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes {
        gate(dictionary, x).1
    }

    fn draft(&self, dictionary: &Dictionary, batch: &Batch, at: &StepContext) -> Draft {
        let (pi, codes) = gate(dictionary, batch.input.clone());
        let output = dictionary.decode(&codes, &batch.input);
        let base = dictionary.b_dec.val().detach().unsqueeze_dim::<2>(0);
        let mut by_gate = pi.times(dictionary.w_dec.val().detach()) + base;
        if let Some(skip) = &dictionary.w_skip {
            by_gate = by_gate + batch.input.clone().matmul(skip.val().detach().transpose());
        }
        let losses = vec![
            reconstruction(&batch.target, &output),
            Loss { name: "l1", value: l1(dictionary, &pi), weight: self.weight * warm_up(at, self.warm_up_fraction) },
            Loss { name: "gate_reconstruction", ..reconstruction(&batch.target, &by_gate) },
        ];
        Draft { losses, output, codes, smallest: None, penalty_scale: None }
    }

    fn dead_after_tokens(&self) -> usize {
        self.dead_after_tokens
    }
}
