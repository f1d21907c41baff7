//! The penalty on blocks of a Jacobian as training uses it: surrogate, normalisation, how often and on what it is evaluated.
//!
//! `R = mean_t Σ_{b,a} f(|J[t, b, a]|)` with f the surrogate of any
//! element-wise penalty of the registry. Farnik et al. write `λ/k² Σ|J|` beside
//! errors that are means over the d dimensions; ours are sums over them, so
//! that `weight = λ d/k²`: their rule of thumb `λ ≈ ½ k²/d` is `weight = ½`.
//!
//! `normalise = "token"` divides a block by its root mean square before f, and
//! "batch" by that of the whole batch: what remains is how the entries are
//! spread, and shrinking all of them gains nothing.
//!
//! `every = N` evaluates it on each N-th step with N times the weight,
//! `tokens = M` on the first M tokens of the (shuffled) batch, and
//! `latents_fraction = p` on a random share p of either dictionary's latents,
//! drawn anew each time, with weight `1/p²`. All three leave the expected
//! gradient as it is (but for the normaliser's own noise) and change cost and variance.
//!
//! # Source
//! Farnik et al. 2025, arXiv 2502.18147, §3.2 and §5; surrogates: see `crates/sememe/src/penalty`.

use std::sync::Arc;

use burn::tensor::Tensor;
use rand::seq::SliceRandom;
use sememe_kernels::Pattern;
use sememe_truth::random::Stream;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Blocks;
use crate::penalty::{DependencyL1, PenaltyError, PenaltyKind};
use crate::schedule::{Guard, Ramp, ScheduleError};
use crate::train::StepContext;

/// By what the entries are divided before the surrogate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalise {
    /// By nothing.
    #[default]
    Off,
    /// By the root mean square of each token's block.
    Token,
    /// By the root mean square over the batch.
    Batch,
}

/// A setting of the penalty that makes no sense.
#[derive(Debug, Error, PartialEq)]
pub enum JacobianTermError {
    /// Of the surrogate.
    #[error(transparent)]
    Penalty(#[from] PenaltyError),
    /// Of its schedule.
    #[error("jacobian: {0}")]
    Schedule(#[from] ScheduleError),
    /// Of the term itself.
    #[error("jacobian: `{key}` is {got}; {expected}")]
    Term {
        /// The key at fault.
        key: &'static str,
        /// Its value.
        got: String,
        /// What it may be.
        expected: &'static str,
    },
}

/// The penalty on blocks of a Jacobian.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JacobianTerm {
    /// Which surrogate: `kind = { name = "dependency-l1" }`.
    pub kind: PenaltyKind,
    /// Its weight once the ramp is over; 0 for two dictionaries without a penalty.
    pub weight: f64,
    /// By what entries are divided before the surrogate.
    pub normalise: Normalise,
    /// Evaluate on every N-th step.
    pub every: usize,
    /// Evaluate on the first M tokens of the batch; 0 means all.
    pub tokens: usize,
    /// Evaluate on a random share of the latents.
    pub latents_fraction: f64,
    /// How the weight rises.
    pub ramp: Ramp,
    /// Backs the weight off when reconstruction worsens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
}

impl Default for JacobianTerm {
    fn default() -> Self {
        Self {
            kind: PenaltyKind::DependencyL1(DependencyL1::default()),
            weight: 0.5,
            normalise: Normalise::Off,
            every: 1,
            tokens: 0,
            latents_fraction: 1.0,
            ramp: Ramp { length_fraction: 0.05, ..Ramp::default() },
            guard: None,
        }
    }
}

/// What of a batch the penalty sees.
pub(crate) struct Sample {
    /// Tokens from the first.
    pub tokens: usize,
    pub x: Arc<Pattern>,
    pub y: Arc<Pattern>,
    /// Factor that makes a sum over the sample estimate that over all latents.
    pub factor: f64,
}

impl JacobianTerm {
    /// Refuses settings that make no sense.
    pub(crate) fn check(&self) -> Result<(), JacobianTermError> {
        let error = |key, got: String, expected| Err(JacobianTermError::Term { key, got, expected });
        if !(self.weight.is_finite() && self.weight >= 0.0) {
            return error("weight", self.weight.to_string(), "give a finite number, 0 or above");
        }
        if self.every == 0 {
            return error("every", "0".into(), "give at least 1");
        }
        if !(self.latents_fraction > 0.0 && self.latents_fraction <= 1.0) {
            return error("latents_fraction", self.latents_fraction.to_string(), "give a fraction above 0, at most 1");
        }
        if self.kind.member().elements(Tensor::zeros([1], &burn::tensor::Device::flex())).is_none() {
            return error(
                "kind",
                format!("`{}`", self.kind.tag()),
                "give a penalty that acts on each entry of the Jacobian: dependency-l1, frobenius, mcp, scad, log, tanh, capped-l1, lp",
            );
        }
        self.ramp.check()?;
        self.guard.as_ref().map_or(Ok(()), Guard::check)?;
        Ok(self.kind.member().check(1, 1)?)
    }

    /// The weight at this step before the guard; 0 when the penalty is not evaluated.
    pub fn weight_at(&self, at: &StepContext) -> f64 {
        if at.step.is_multiple_of(self.every) { self.weight * self.every as f64 * self.ramp.factor(at.progress()) } else { 0.0 }
    }

    /// The tokens and latents that take part.
    pub(crate) fn sample(&self, x: &Arc<Pattern>, y: &Arc<Pattern>, stream: &mut Stream) -> Sample {
        let tokens = if self.tokens == 0 { x.rows() } else { self.tokens.min(x.rows()) };
        if tokens == x.rows() && self.latents_fraction == 1.0 {
            return Sample { tokens, x: x.clone(), y: y.clone(), factor: 1.0 };
        }
        let mut factor = 1.0;
        let mut of = |pattern: &Pattern| {
            let n = pattern.n();
            let count = ((n as f64 * self.latents_fraction).round() as usize).clamp(1, n);
            let mut takes_part = vec![count == n; n];
            if count < n {
                let mut order: Vec<u32> = (0..n as u32).collect();
                let (chosen, _) = order.partial_shuffle(stream, count);
                chosen.iter().for_each(|&latent| takes_part[latent as usize] = true);
                factor *= n as f64 / count as f64;
            }
            Arc::new(pattern.restricted(tokens, |latent| takes_part[latent as usize]))
        };
        let (x, y) = (of(x), of(y));
        Sample { tokens, x, y, factor }
    }

    /// `mean_t Σ f(|J|)` over blocks of `tokens` tokens: `[1]`.
    #[allow(non_snake_case)]
    pub fn value(&self, blocks: &Blocks, tokens: usize) -> Tensor<1> {
        let J = blocks.entries.clone();
        let normalised = match self.normalise {
            Normalise::Off => J,
            Normalise::Batch => J.clone() / ((J.clone() * J).mean() + SMALLEST).sqrt(),
            Normalise::Token => J / blocks.rms_of_token(SMALLEST),
        };
        let terms = self.kind.member().elements(normalised.abs()).unwrap_or_else(|| blocks.entries.clone() * 0.0);
        terms.sum() / tokens.max(1) as f64
    }
}

/// Under the root of a normaliser, so that an empty block divides by something.
const SMALLEST: f64 = 1e-12;
