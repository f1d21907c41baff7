//! Training a dictionary: batches from a source, one optimiser step each, events for whoever watches.
//!
//! Adam (.9, .999), learning rate `2e-4/√(n/2¹⁴)` with a linear warm-up over
//! 1000 steps and a linear decay over the last 20 %, gradients clipped to
//! norm 1. Decoder rows of norm 1 are kept so within Adam's pass.
//!
//! # Source
//! Gao et al. 2024, arXiv 2406.04093, appendix A; Marks et al. 2024, dictionary_learning (defaults).

use std::collections::BTreeMap;

use burn::module::Param;
use sememe_kernels::Precision;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Batch, BatchError, Batches, Centre, Dictionary, DictionaryError, Memory};
use crate::schedule::{Decay, LearningRate};
use crate::train::{Adam, AdamConfig, Event, Fit, Flow, NamedTensors, Observer, StepContext, TrainError, gradients_of, parameters};

/// How long and how fast to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DictionaryPlan {
    /// Optimiser steps.
    pub steps: usize,
    /// N, tokens a batch, for whoever makes them.
    pub batch_tokens: usize,
    /// The plateau of the learning rate; `2e-4/√(n/2¹⁴)` without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    /// Steps over which the learning rate rises from 0.
    pub warm_up_steps: usize,
    /// Fraction of the steps, at the end, over which it falls to 0.
    pub decay_fraction: f64,
    /// Settings of Adam.
    pub adam: AdamConfig,
    /// Where `b_dec` begins.
    pub centre: Centre,
    /// How the product that chooses active latents is formed.
    pub precision: Precision,
}

impl Default for DictionaryPlan {
    fn default() -> Self {
        Self {
            steps: 10_000,
            batch_tokens: 4096,
            learning_rate: None,
            warm_up_steps: 1000,
            decay_fraction: 0.2,
            adam: AdamConfig { clip_norm: 1.0, ..AdamConfig::default() },
            centre: Centre::default(),
            precision: Precision::default(),
        }
    }
}

impl DictionaryPlan {
    /// Refuses numbers with which no training is possible.
    ///
    /// # Errors
    /// The first key that makes no sense.
    pub fn check(&self) -> Result<(), DictionaryError> {
        let error = |key, got: String, expected: &str| Err(DictionaryError { dictionary: "training", key, got, expected: expected.into() });
        if self.steps == 0 {
            return error("steps", "0".into(), "give at least 1");
        }
        if self.batch_tokens == 0 {
            return error("batch_tokens", "0".into(), "give at least 1");
        }
        if let Some(rate) = self.learning_rate
            && !(rate.is_finite() && rate > 0.0)
        {
            return error("learning_rate", rate.to_string(), "give a finite number above 0, or leave it out");
        }
        if !(0.0..=1.0).contains(&self.decay_fraction) {
            return error("decay_fraction", self.decay_fraction.to_string(), "give a fraction from 0 to 1");
        }
        match self.adam.check() {
            Ok(()) => Ok(()),
            Err((key, got, expected)) => error(key, got.to_string(), expected),
        }
    }

    /// The learning rate over the steps, for n latents.
    pub fn rate(&self, n: usize) -> LearningRate {
        LearningRate {
            peak: self.learning_rate.unwrap_or_else(|| 2e-4 / (n as f64 / f64::from(1 << 14)).sqrt()),
            warm_up_fraction: (self.warm_up_steps as f64 / self.steps.max(1) as f64).min(1.0),
            decay: Decay::Linear,
            decay_fraction: self.decay_fraction,
        }
    }
}

/// Why training stopped before its end.
#[derive(Debug, Error, PartialEq)]
pub enum DictionaryTrainError {
    /// A number that is not finite appeared.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// There is no next batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
}

fn optimiser(adam: Adam, dictionary: &Dictionary) -> Adam {
    if dictionary.kind.member().form().unit_rows { adam.with_unit_rows(&["w_dec"]) } else { adam }
}

/// An untrained dictionary, ready for [`train`].
pub fn start(dictionary: Dictionary, plan: &DictionaryPlan, seed: u64) -> Fit<Dictionary> {
    let adam = optimiser(Adam::new(plan.adam.clone()), &dictionary);
    Fit::resume(dictionary, adam, 0, Vec::new(), seed)
}

/// A dictionary that was saved after `step` steps, with the state that [`Memory::state`] gave.
///
/// # Errors
/// One line about a memory that does not fit.
pub fn resume(mut dictionary: Dictionary, memory: NamedTensors, adam: Adam, step: usize, seed: u64) -> Result<Fit<Dictionary>, String> {
    dictionary.memory = Memory::restore(dictionary.n(), memory)?;
    let adam = optimiser(adam, &dictionary);
    Ok(Fit::resume(dictionary, adam, step, Vec::new(), seed))
}

/// Trains until the plan's steps are done or the observer stops it.
///
/// The same dictionary, plan, seed and batches give the same bits, also when
/// training is stopped, saved and resumed. Beside its losses a step reports
/// `l0` (active latents a token) and `dead_fraction`.
///
/// # Errors
/// [`TrainError::NotFinite`] with the step and the tensor's name, or what the source of batches says.
pub fn train(
    mut fit: Fit<Dictionary>,
    batches: &mut dyn Batches,
    plan: &DictionaryPlan,
    observer: &mut dyn Observer<Dictionary>,
) -> Result<Fit<Dictionary>, DictionaryTrainError> {
    let rate = plan.rate(fit.model.n());
    fit.model.precision = plan.precision;
    while fit.step < plan.steps {
        let step = fit.step;
        let batch = lifted_batch(batches.next(step)?, &fit.model);
        check_shape(&batch, &fit.model, step)?;
        if step == 0
            && let Some(middle) = plan.centre.of(&without_autodiff(batch.target.clone()))
        {
            fit.model.b_dec = Param::from_tensor(like(middle, &fit.model));
        }
        let at = StepContext::new(fit.seed(), step, plan.steps);
        let draft = fit.model.kind.member().draft(&fit.model, &batch, &at);
        let mut losses = BTreeMap::new();
        let mut total = None;
        for loss in draft.losses {
            let value = f64::from(loss.value.clone().into_scalar::<f32>());
            if !value.is_finite() {
                return Err(TrainError::NotFinite { step, tensor: culprit(&fit.model).unwrap_or_else(|| loss.name.into()) }.into());
            }
            losses.insert(loss.name.to_string(), value);
            let weighted = loss.value * loss.weight;
            total = Some(match total {
                Some(total) => total + weighted,
                None => weighted,
            });
        }
        let (active, _) = draft.codes.active();
        drop(draft.codes);
        let gradients = total.map(|total| gradients_of(&fit.model, &total.backward())).unwrap_or_default();
        let learning_rate = rate.at(step, plan.steps);
        fit = fit.advance(gradients, learning_rate);
        let momentum = fit.model.kind.member().threshold_momentum();
        let memory = &mut fit.model.memory;
        memory.observe(&active);
        if let Some(smallest) = draft.smallest {
            memory.observe_smallest(smallest, momentum);
        }
        if let Some(scale) = draft.penalty_scale {
            memory.penalty_scale = scale;
        }
        let dead = fit.model.memory.dead(fit.model.kind.member().dead_after_tokens()).len();
        losses.insert("l0".into(), active.entries() as f64 / active.rows().max(1) as f64);
        losses.insert("dead_fraction".into(), dead as f64 / active.n() as f64);
        if observer.observe(&Event::Step { step, losses: &losses, learning_rate }, &fit) == Flow::Stop {
            break;
        }
    }
    fit.model.precision = Precision::Single;
    Ok(fit)
}

/// `x` without autodiff.
pub(crate) fn without_autodiff(x: burn::tensor::Tensor<2>) -> burn::tensor::Tensor<2> {
    if x.device().is_autodiff() { x.inner() } else { x }
}

/// `value` as a parameter of the dictionary would lie.
fn like(value: burn::tensor::Tensor<1>, dictionary: &Dictionary) -> burn::tensor::Tensor<1> {
    if dictionary.b_dec.val().device().is_autodiff() { burn::tensor::Tensor::from_inner(value).require_grad() } else { value }
}

/// The batch on the device of the dictionary, with autodiff where it has it.
pub(crate) fn lifted_batch(batch: Batch, dictionary: &Dictionary) -> Batch {
    let wanted = dictionary.b_dec.val().device().is_autodiff();
    let lift = |x: burn::tensor::Tensor<2>| match (wanted, x.device().is_autodiff()) {
        (true, false) => burn::tensor::Tensor::from_inner(x),
        _ => x,
    };
    Batch { input: lift(batch.input), target: lift(batch.target) }
}

fn check_shape(batch: &Batch, dictionary: &Dictionary, step: usize) -> Result<(), BatchError> {
    let widths = dictionary.widths();
    let ([rows, input], [targets, output]) = (batch.input.dims(), batch.target.dims());
    let error = |message: String| Err(BatchError { step, message });
    if rows == 0 || rows != targets {
        return error(format!("{rows} rows of input and {targets} of output; give equally many, at least 1"));
    }
    if [input, output] != [widths.input, widths.output] {
        return error(format!("widths {input} and {output}; the dictionary has {} and {}", widths.input, widths.output));
    }
    Ok(())
}

/// The first parameter that is not finite.
fn culprit(dictionary: &Dictionary) -> Option<String> {
    parameters(dictionary)
        .into_iter()
        .find(|(_, (tensor, _))| !tensor.clone().sum().into_scalar::<f32>().is_finite())
        .map(|(name, _)| format!("parameter {name}"))
}
