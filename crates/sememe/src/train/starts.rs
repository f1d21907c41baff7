//! Several starts of one training, of which the best goes on.
//!
//! A model of hidden factors can settle in a wrong solution that no step leaves
//! again: it reconstructs worse and depends more densely than the right one,
//! and shows so early. Each start is trained for a fraction of the steps; the one with the lowest objective
//! (reconstruction, weighted losses and weighted penalties, mean over the last fifth of its steps) is
//! then trained from its beginning. Nothing of the truth is used.
//!
//! # Source
//! Random restarts, as in k-means or mixture models (e.g. McLachlan & Peel 2000, §2.12).

use burn::tensor::Tensor;
use rand::RngCore;
use sememe_truth::random::stream;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Event, Fit, Flow, Objective, Observer, Plan, Term, TrainError};

/// How many starts, and for how long each is tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Starts {
    /// Starts that are tried.
    pub candidates: usize,
    /// Fraction of the steps that each is trained for.
    pub fraction: f64,
}

impl Default for Starts {
    fn default() -> Self {
        Self { candidates: 6, fraction: 0.25 }
    }
}

/// A setting of the starts that makes no sense.
#[derive(Debug, Error, PartialEq)]
#[error("training.starts: `{key}` is {got}; {expected}")]
pub struct StartsError {
    key: &'static str,
    got: String,
    expected: &'static str,
}

/// What the objective is called among the losses that the loop tells.
pub const OBJECTIVE: &str = "objective";

impl Starts {
    /// Refuses settings that make no sense.
    pub fn check(&self) -> Result<(), StartsError> {
        if self.candidates == 0 {
            return Err(StartsError { key: "candidates", got: "0".into(), expected: "give at least 1" });
        }
        if !(self.fraction > 0.0 && self.fraction <= 1.0) {
            return Err(StartsError {
                key: "fraction",
                got: self.fraction.to_string(),
                expected: "give a fraction of the steps, above 0 and up to 1",
            });
        }
        Ok(())
    }

    /// Steps that each start is trained for, of `steps`.
    pub fn steps(&self, steps: usize) -> usize {
        ((self.fraction * steps as f64).ceil() as usize).clamp(1, steps)
    }

    /// The seed of start `number`; start 0 has the run's own.
    pub fn seed(run_seed: u64, number: usize) -> u64 {
        if number == 0 { run_seed } else { stream(run_seed, &format!("start/{number}")).next_u64() }
    }

    /// The objective that the untrained `model` reaches, or `None` when `stop` asked for an end.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] with the step and the tensor's name.
    pub fn try_out<M: Objective>(
        &self,
        model: M,
        data: &Tensor<2>,
        plan: &Plan,
        terms: &[Term],
        seed: u64,
        stop: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<f64>, TrainError> {
        let until = self.steps(plan.steps);
        let mut scout = Scout { until, objectives: Vec::with_capacity(until), stop, stopped: false };
        Fit::new(model, plan, terms, seed).run(data, plan, terms, &mut scout)?;
        let last = &scout.objectives[scout.objectives.len() - scout.objectives.len().div_ceil(5)..];
        Ok((!scout.stopped).then(|| last.iter().sum::<f64>() / last.len().max(1) as f64))
    }
}

struct Scout<'a> {
    until: usize,
    objectives: Vec<f64>,
    stop: &'a mut dyn FnMut(usize) -> bool,
    stopped: bool,
}

impl<M> Observer<M> for Scout<'_> {
    fn observe(&mut self, event: &Event<'_>, _: &Fit<M>) -> Flow {
        let Event::Step { step, losses, .. } = event else { return Flow::Continue };
        self.objectives.extend(losses.get(OBJECTIVE));
        self.stopped |= (self.stop)(step + 1);
        if self.stopped || step + 1 == self.until { Flow::Stop } else { Flow::Continue }
    }
}
