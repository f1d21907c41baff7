//! The training loop: named losses and penalties of a batch, one optimiser step, events for whoever watches.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::seq::SliceRandom;
use sememe_truth::random::stream;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::gradients::{NamedTensors, add, gradients_of};
use super::{Adam, AdamConfig, OBJECTIVE, Objective, Realign, Starts, StepContext, Term};
use crate::schedule::{GuardState, LearningRate};

/// How long and how fast to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Optimiser steps.
    pub steps: usize,
    /// Samples a batch.
    pub batch: usize,
    /// Batches whose gradients are averaged into one step.
    pub accumulate: usize,
    /// The learning rate over the steps.
    pub learning_rate: LearningRate,
    /// Settings of Adam.
    pub adam: AdamConfig,
    /// Searches for a sparser basis of the latents at some steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realign: Option<Realign>,
    /// Several starts, of which the best goes on; it is whoever calls [`Fit::run`] that tries them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts: Option<Starts>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            steps: 6000,
            batch: 256,
            accumulate: 1,
            learning_rate: LearningRate::default(),
            adam: AdamConfig::default(),
            realign: None,
            starts: None,
        }
    }
}

/// Why training stopped before its end.
#[derive(Debug, Error, PartialEq)]
pub enum TrainError {
    /// A number that is not finite appeared.
    #[error(
        "step {step}: `{tensor}` is not finite (NaN or infinite); lower the learning rate or the penalty's weight, or look for extreme values in the data"
    )]
    NotFinite {
        /// The step, from 0.
        step: usize,
        /// The loss or parameter where it was seen first.
        tensor: String,
    },
}

/// What an observer wants of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Stop after this step; the state can be saved and resumed.
    Stop,
}

/// What the loop tells.
pub enum Event<'a> {
    /// A step was taken.
    Step {
        /// Its number, from 0.
        step: usize,
        /// Named losses and penalties of the step, unweighted, and their weighted sum ([`OBJECTIVE`]); a penalty that
        /// was not evaluated is absent.
        losses: &'a BTreeMap<String, f64>,
        /// The learning rate used.
        learning_rate: f64,
    },
    /// A guard changed its factor.
    Guard {
        /// The step.
        step: usize,
        /// The penalty.
        penalty: &'static str,
        /// The new factor on its weight.
        factor: f64,
    },
}

/// Watches the loop: prints, writes, saves, stops.
pub trait Observer<M> {
    /// Called after every event; `fit` is the state after it.
    fn observe(&mut self, event: &Event<'_>, fit: &Fit<M>) -> Flow;
}

/// A model in training: all that the next step needs.
#[derive(Clone, Debug)]
pub struct Fit<M> {
    /// The model.
    pub model: M,
    /// Its optimiser.
    pub adam: Adam,
    /// Steps taken.
    pub step: usize,
    /// The guards' memories, one a term.
    pub guards: Vec<GuardState>,
    seed: u64,
}

impl<M: Module> Fit<M> {
    /// A model that was saved after `step` steps.
    pub fn resume(model: M, adam: Adam, step: usize, guards: Vec<GuardState>, seed: u64) -> Self {
        Self { model, adam, step, guards, seed }
    }

    /// The seed of every random stream of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The state after one step of the optimiser against `gradients`.
    #[must_use]
    pub fn advance(self, gradients: NamedTensors, learning_rate: f64) -> Self {
        let Self { model, mut adam, step, guards, seed } = self;
        let model = adam.step(model, gradients, learning_rate);
        Self { model, adam, step: step + 1, guards, seed }
    }
}

impl<M: Objective> Fit<M> {
    /// An untrained model.
    pub fn new(model: M, plan: &Plan, terms: &[Term], seed: u64) -> Self {
        Self { model, adam: Adam::new(plan.adam.clone()), step: 0, guards: vec![GuardState::default(); terms.len()], seed }
    }

    /// Trains on `data [samples, dx]` until the plan's steps are done or the observer stops it.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] with the step and the tensor's name.
    pub fn run(mut self, data: &Tensor<2>, plan: &Plan, terms: &[Term], observer: &mut dyn Observer<M>) -> Result<Self, TrainError> {
        let samples = data.dims()[0];
        let batch = plan.batch.min(samples);
        let mut order = Order::new(self.seed, samples, batch);
        while self.step < plan.steps {
            let step = self.step;
            if let Some(realign) = plan.realign.as_ref().filter(|realign| realign.is_due(step, plan.steps)) {
                let model = realign.apply(self.model, data, self.seed, step);
                // The moments belong to the old basis.
                self = Self { model, adam: Adam::new(plan.adam.clone()), ..self };
            }
            let mut gradients = NamedTensors::new();
            let mut losses = BTreeMap::new();
            for part in 0..plan.accumulate {
                let at = StepContext::new(self.seed, step, plan.steps).at_part(part);
                let x = data.clone().select(0, order.batch(step * plan.accumulate + part, &data.device()));
                let share = 1.0 / plan.accumulate as f64;
                self.differentiate(x, terms, &at, share, &mut gradients, &mut losses)?;
            }
            let learning_rate = plan.learning_rate.at(step, plan.steps);
            self = self.advance(gradients, learning_rate);
            let mut flow = Flow::Continue;
            if let Some(&reconstruction) = losses.get("reconstruction") {
                for (index, term) in terms.iter().enumerate() {
                    let changed = term.guard.as_ref().and_then(|guard| guard.observe(&mut self.guards[index], reconstruction));
                    if let Some(factor) = changed {
                        flow = observer.observe(&Event::Guard { step, penalty: term.kind.tag(), factor }, &self);
                    }
                }
            }
            if observer.observe(&Event::Step { step, losses: &losses, learning_rate }, &self) == Flow::Stop || flow == Flow::Stop {
                break;
            }
        }
        Ok(self)
    }

    /// Adds `share` of the batch's gradients and losses.
    fn differentiate(
        &self,
        x: Tensor<2>,
        terms: &[Term],
        at: &StepContext,
        share: f64,
        gradients: &mut NamedTensors,
        losses: &mut BTreeMap<String, f64>,
    ) -> Result<(), TrainError> {
        let draft = self.model.draft(x.clone(), at);
        let mut total = draft.latents.clone().sum() * 0.0;
        let mut named: Vec<(String, Tensor<1>, f64)> = Vec::new();
        let mut output = None;
        for (term, guard) in terms.iter().zip(&self.guards) {
            let weight = term.weight_at(at) * guard.factor;
            if weight > 0.0 {
                let evaluated = term.evaluate(&self.model, &draft.latents, at, gradients, weight * share);
                output = output.or(evaluated.output);
                total = total + evaluated.weighted;
                named.push((term.kind.tag().to_string(), evaluated.reported, weight));
            }
        }
        let output = output.unwrap_or_else(|| self.model.generator().apply(draft.latents));
        for loss in draft.losses.into_iter().chain([self.model.reconstruct(x, output)]) {
            total = total + loss.value.clone() * (loss.weight * share);
            named.push((loss.name.to_string(), loss.value, loss.weight));
        }
        let mut objective = 0.0;
        for (name, value, weight) in named {
            let value = f64::from(value.into_scalar::<f32>());
            if !value.is_finite() {
                return Err(TrainError::NotFinite { step: at.step, tensor: self.culprit().unwrap_or(name) });
            }
            *losses.entry(name).or_insert(0.0) += value * share;
            objective += weight * value;
        }
        *losses.entry(OBJECTIVE.into()).or_insert(0.0) += objective * share;
        let backward = total.backward();
        add(gradients, gradients_of(&self.model, &backward));
        Ok(())
    }

    /// The first parameter that is not finite.
    fn culprit(&self) -> Option<String> {
        super::parameters(&self.model)
            .into_iter()
            .find(|(_, (tensor, _))| !tensor.clone().sum().into_scalar::<f32>().is_finite())
            .map(|(name, _)| format!("parameter {name}"))
    }
}

/// The samples of each batch: a fresh shuffle each epoch, a function of the seed and the batch's number alone.
struct Order {
    seed: u64,
    samples: usize,
    batch: usize,
    epoch: Option<usize>,
    order: Vec<i32>,
}

impl Order {
    fn new(seed: u64, samples: usize, batch: usize) -> Self {
        Self { seed, samples, batch, epoch: None, order: Vec::new() }
    }

    fn batch(&mut self, number: usize, device: &Device) -> Tensor<1, Int> {
        let per_epoch = (self.samples / self.batch).max(1);
        let (epoch, within) = (number / per_epoch, number % per_epoch);
        if self.epoch != Some(epoch) {
            self.order = (0..self.samples as i32).collect();
            self.order.shuffle(&mut stream(self.seed, &format!("order/{epoch}")));
            self.epoch = Some(epoch);
        }
        let indices = self.order[within * self.batch..(within + 1) * self.batch].to_vec();
        Tensor::from_data(TensorData::new(indices, [self.batch]), device)
    }
}
