//! A penalty as training uses it: its weight, ramp, guard, columns, and how often and on how many samples it is evaluated.
//!
//! `every = N` evaluates the penalty on each N-th step with N times the
//! weight, and `samples = M` on the first M samples of each (shuffled) batch:
//! both leave the mean gradient as it is and change only cost and variance.
//!
//! # Recomputation
//! `chunk = M` evaluates the penalty M samples at a time and frees the memory
//! of each chunk before the next. Each chunk's graph is differentiated at
//! once, down to the latents and the pins; their gradients then enter the main
//! graph as `⟨z, ∂R/∂z⟩ + ⟨p, ∂R/∂p⟩`. The generator runs once more; the
//! gradients are those of the whole batch.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::gradients::{NamedTensors, add, gradients_of};
use super::{Objective, StepContext};
use crate::jacobian::{ColumnChoice, ColumnChoiceError};
use crate::penalty::{Needs, PenaltyError, PenaltyKind, Point, std_of_latents};
use crate::schedule::{Guard, Ramp, ScheduleError};

/// One `[[penalty]]` of a config.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// Which penalty, with its settings: `kind = { name = "dependency-l1" }`.
    pub kind: PenaltyKind,
    /// Its weight in the loss once the ramp is over.
    pub weight: f64,
    /// Multiply directions by std(z_j), so that rescaling a latent changes nothing.
    #[serde(default = "yes")]
    pub pin_scale: bool,
    /// Which columns of the Jacobian.
    #[serde(default)]
    pub columns: ColumnChoice,
    /// Evaluate on every N-th step.
    #[serde(default = "one")]
    pub every: usize,
    /// Evaluate on the first M samples of the batch; 0 means all.
    #[serde(default)]
    pub samples: usize,
    /// Evaluate M samples at a time to save memory; 0 means all at once.
    #[serde(default)]
    pub chunk: usize,
    /// How the weight rises.
    #[serde(default)]
    pub ramp: Ramp,
    /// Backs the weight off when reconstruction worsens.
    #[serde(default)]
    pub guard: Option<Guard>,
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

/// A term that makes no sense for the model.
#[derive(Debug, Error, PartialEq)]
pub enum TermError {
    /// A weight that is not finite, or below 0.
    #[error("penalty `{tag}`: `weight` is {got}; give a finite number, 0 or above")]
    Weight {
        /// The penalty.
        tag: &'static str,
        /// Its weight.
        got: f64,
    },
    /// `every = 0`.
    #[error("penalty `{tag}`: `every` is 0; give at least 1")]
    Every {
        /// The penalty.
        tag: &'static str,
    },
    /// Chunks of a penalty that needs the whole batch.
    #[error("penalty `{tag}`: `chunk` cannot be set, since it averages over the whole batch; leave the key out")]
    Chunk {
        /// The penalty.
        tag: &'static str,
    },
    /// Columns chosen for a penalty that has none, or needs all.
    #[error("penalty `{tag}`: `columns` cannot be chosen, since it {why}; leave the key out")]
    Columns {
        /// The penalty.
        tag: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// A choice of columns that the model cannot meet.
    #[error("penalty `{tag}`: {source}")]
    Choice {
        /// The penalty.
        tag: &'static str,
        /// Why.
        source: ColumnChoiceError,
    },
    /// A setting of the penalty itself.
    #[error(transparent)]
    Penalty(#[from] PenaltyError),
    /// A schedule.
    #[error("penalty `{tag}`: {source}")]
    Schedule {
        /// The penalty.
        tag: &'static str,
        /// Why.
        source: ScheduleError,
    },
}

impl Term {
    /// A term with the default ramp and no guard.
    pub fn new(kind: PenaltyKind, weight: f64) -> Self {
        Self {
            kind,
            weight,
            pin_scale: true,
            columns: ColumnChoice::All,
            every: 1,
            samples: 0,
            chunk: 0,
            ramp: Ramp::default(),
            guard: None,
        }
    }

    /// Refuses a term that makes no sense for `dz` latents and `dx` observed variables.
    pub fn check(&self, dz: usize, dx: usize) -> Result<(), TermError> {
        let tag = self.kind.tag();
        if !(self.weight.is_finite() && self.weight >= 0.0) {
            return Err(TermError::Weight { tag, got: self.weight });
        }
        if self.every == 0 {
            return Err(TermError::Every { tag });
        }
        self.columns.check(dz).map_err(|source| TermError::Choice { tag, source })?;
        if self.columns != ColumnChoice::All {
            match self.kind.member().needs() {
                Needs::Columns => {}
                // Only a choice that is the same for all samples has columns to average.
                Needs::MeanOverSamples if matches!(self.columns, ColumnChoice::Random(_)) => {}
                Needs::MeanOverSamples => return Err(TermError::Columns { tag, why: "averages each column over samples" }),
                Needs::AllColumns => return Err(TermError::Columns { tag, why: "compares all columns" }),
                Needs::Directions => return Err(TermError::Columns { tag, why: "draws random directions instead" }),
                Needs::Latents => return Err(TermError::Columns { tag, why: "acts on the code, not on the Jacobian" }),
            }
        }
        if self.chunk > 0 && self.kind.member().needs() == Needs::MeanOverSamples {
            return Err(TermError::Chunk { tag });
        }
        self.ramp.check().map_err(|source| TermError::Schedule { tag, source })?;
        if let Some(guard) = &self.guard {
            guard.check().map_err(|source| TermError::Schedule { tag, source })?;
        }
        Ok(self.kind.member().check(dz, dx)?)
    }

    /// The weight at this step before the guard; 0 when the penalty is not evaluated.
    pub fn weight_at(&self, at: &StepContext) -> f64 {
        if at.step.is_multiple_of(self.every) { self.weight * self.every as f64 * self.ramp.factor(at.progress()) } else { 0.0 }
    }

    /// The penalty's value at `latents [N, dz]`, for the main graph, and the output of the generator where it came along.
    pub(super) fn evaluate<M: Objective>(
        &self,
        model: &M,
        latents: &Tensor<2>,
        at: &StepContext,
        chunked: &mut NamedTensors,
        weight: f64,
    ) -> Evaluated {
        let all = latents.dims()[0];
        let used = if self.samples == 0 { all } else { self.samples.min(all) };
        let pins = self.pin_scale.then(|| std_of_latents(latents));
        let latents = if used < all { latents.clone().narrow(0, 0, used) } else { latents.clone() };
        let stream = at.stream(self.kind.tag());
        if self.chunk == 0 || self.chunk >= used {
            let point = Point::new(model.generator(), latents, pins, self.columns, stream);
            let value = self.kind.member().value(&point);
            let output = if used == all { point.output_with_columns() } else { None };
            return Evaluated { output, reported: value.clone(), weighted: value * weight };
        }
        let (z, p) = (latents.clone().detach().require_grad(), pins.clone().map(|pins| pins.detach().require_grad()));
        let mut weighted = latents.clone().sum() * 0.0;
        let mut reported = latents.clone().detach().sum() * 0.0;
        for start in (0..used).step_by(self.chunk) {
            let size = self.chunk.min(used - start);
            let point = Point::new(model.generator(), z.clone().narrow(0, start, size), p.clone(), self.columns, stream.clone());
            let value = self.kind.member().value(&point) * (size as f64 / used as f64);
            reported = reported + value.clone().detach();
            let gradients = (value * weight).backward();
            add(chunked, gradients_of(model, &gradients));
            if let Some(dz) = z.grad(&gradients) {
                weighted = weighted + (latents.clone() * Tensor::from_inner(dz)).sum();
            }
            if let Some((pins, dp)) = pins.as_ref().zip(p.as_ref().and_then(|p| p.grad(&gradients))) {
                weighted = weighted + (pins.clone() * Tensor::from_inner(dp)).sum();
            }
        }
        Evaluated { output: None, reported, weighted }
    }
}

/// What evaluating a term gives.
pub(super) struct Evaluated {
    /// `g(z) [N, dx]`, where the columns brought it along for the whole batch.
    pub output: Option<Tensor<2>>,
    /// The penalty's value `[1]`.
    pub reported: Tensor<1>,
    /// The number `[1]` whose gradient in the main graph is the weighted penalty's (unless chunked, its weighted value).
    pub weighted: Tensor<1>,
}
