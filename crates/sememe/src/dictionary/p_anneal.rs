//! p-annealing: a ReLU dictionary whose penalty goes from L1 towards L0.
//!
//! `z = ReLU(u)`; loss `mean_N Σ_d (x − x̂)² + λ s(t) w(t) · mean_N Σ_i (z_i ‖W_dec,i‖)^p`, p falling
//! linearly from 1 to `p_end` after `start_fraction` of the steps. Whenever p
//! changes, s is multiplied by the ratio of the old and new penalties on the
//! batch, so that the pressure stays the same.
//!
//! # Source
//! Karvonen et al. 2024, arXiv 2408.00113, §4.
//! Departs from the source: the ratio is taken on the batch of the step, not over a queue of batches.

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::relu::{rectified, warm_up};
use super::topk::reconstruction;
use super::{
    Batch, Codes, DEAD_AFTER_TOKENS, Dictionary, DictionaryConfig, DictionaryError, Draft, Form, Widths, check_common, check_fraction,
    check_number,
};
use crate::train::{Loss, StepContext};

/// Config of p-annealing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PAnneal {
    /// n, the number of latents.
    pub n: usize,
    /// λ.
    pub weight: f64,
    /// p at the end, in (0, 1].
    pub p_end: f64,
    /// Fraction of the steps before p falls.
    pub start_fraction: f64,
    /// Fraction of the steps over which λ rises from 0.
    pub warm_up_fraction: f64,
    /// T: tokens after which a silent latent is dead.
    pub dead_after_tokens: usize,
}

impl Default for PAnneal {
    fn default() -> Self {
        Self { n: 16_384, weight: 5.0, p_end: 0.2, start_fraction: 0.15, warm_up_fraction: 0.05, dead_after_tokens: DEAD_AFTER_TOKENS }
    }
}

impl Member for PAnneal {
    const ABOUT: &'static str = "ReLU with an Lp penalty, p falling from 1";
    const SOURCE: &'static str = "Karvonen et al. 2024, arXiv 2408.00113";
}

/// Keeps the slope of `z^p` at 0 finite.
const SMOOTH: f64 = 1e-6;

impl PAnneal {
    /// p at `step` of `steps`.
    pub fn p(&self, step: usize, steps: usize) -> f64 {
        let start = self.start_fraction * steps as f64;
        let along = (step as f64 - start) / (steps as f64 - start).max(1.0);
        1.0 - (1.0 - self.p_end) * along.clamp(0.0, 1.0)
    }
}

/// `Σ v^p` over all entries.
fn penalty(weighted: &Tensor<2>, p: f64) -> Tensor<1> {
    if p == 1.0 { weighted.clone().sum() } else { ((weighted.clone() + SMOOTH).powf_scalar(p) - SMOOTH.powf(p)).sum() }
}

impl DictionaryConfig for PAnneal {
    fn n(&self) -> usize {
        self.n
    }

    fn check(&self, widths: Widths) -> Result<(), DictionaryError> {
        check_common("p-anneal", self.n, self.dead_after_tokens, widths)?;
        check_number("p-anneal", "weight", self.weight, true)?;
        check_fraction("p-anneal", "start_fraction", self.start_fraction)?;
        check_fraction("p-anneal", "warm_up_fraction", self.warm_up_fraction)?;
        check_number("p-anneal", "p_end", self.p_end, false)?;
        check_fraction("p-anneal", "p_end", self.p_end)
    }

    fn form(&self) -> Form {
        Form { unit_rows: false, ..Form::default() }
    }

    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes {
        let (places, z) = rectified(dictionary, x);
        places.codes(z)
    }

    fn draft(&self, dictionary: &Dictionary, batch: &Batch, at: &StepContext) -> Draft {
        let (places, z) = rectified(dictionary, batch.input.clone());
        let codes = places.codes(z.clone());
        let output = dictionary.decode(&codes, &batch.input);
        let weighted = z * places.spread(dictionary.decoder_norms());
        let rows = batch.input.dims()[0] as f64;
        let (p, before) = (self.p(at.step, at.steps), self.p(at.step.saturating_sub(1), at.steps));
        let value = penalty(&weighted, p) / rows;
        let mut scale = dictionary.memory.penalty_scale;
        if p != before {
            let number = |value: Tensor<1>| f64::from(value.into_scalar::<f32>());
            let (old, new) = (number(penalty(&weighted.detach(), before) / rows), number(value.clone().detach()));
            if old > 0.0 && new > 0.0 && (old / new).is_finite() {
                scale *= old / new;
            }
        }
        let loss = Loss { name: "lp", value, weight: self.weight * scale * warm_up(at, self.warm_up_fraction) };
        Draft { losses: vec![reconstruction(&batch.target, &output), loss], output, codes, smallest: None, penalty_scale: Some(scale) }
    }

    fn dead_after_tokens(&self) -> usize {
        self.dead_after_tokens
    }
}
