//! Training a pair: both dictionaries on the same tokens, and the penalty on the Jacobian between them.
//!
//! Plan, optimiser and batches are those of a single dictionary
//! (`crates/sememe/src/dictionary/train.rs`); a batch's input is what enters the
//! layer, its target what leaves it.

use std::collections::BTreeMap;

use burn::module::Param;
use sememe_kernels::Precision;

use super::block::blocks;
use super::layer::lifted;
use super::{JacobianTerm, Layer, Pair};
use crate::dictionary::{
    Batch, BatchError, Batches, Dictionary, DictionaryPlan, DictionaryTrainError, Draft, Memory, lifted_batch, without_autodiff,
};
use crate::schedule::GuardState;
use crate::train::{Adam, Event, Fit, Flow, NamedTensors, Observer, StepContext, TrainError, gradients_of, parameters};

/// A pair in training.
pub type PairFit = Fit<Pair>;

const SIDES: [&str; 2] = ["input", "output"];

fn optimiser(adam: Adam, pair: &Pair) -> Adam {
    let sides = [&pair.input, &pair.output].into_iter().zip(SIDES);
    let names: Vec<String> =
        sides.filter(|(side, _)| side.kind.member().form().unit_rows).map(|(_, name)| format!("{name}.w_dec")).collect();
    adam.with_unit_rows(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// An untrained pair, ready for [`train`].
pub fn start(pair: Pair, plan: &DictionaryPlan, seed: u64) -> PairFit {
    let adam = optimiser(Adam::new(plan.adam.clone()), &pair);
    Fit::resume(pair, adam, 0, vec![GuardState::default()], seed)
}

/// A pair that was saved after `step` steps, with the memory that [`Pair::memory`] gave.
///
/// # Errors
/// One line about a memory that does not fit.
pub fn resume(
    mut pair: Pair,
    memory: NamedTensors,
    adam: Adam,
    step: usize,
    guards: Vec<GuardState>,
    seed: u64,
) -> Result<PairFit, String> {
    for (name, side) in SIDES.into_iter().zip([&mut pair.input, &mut pair.output]) {
        let own = memory.iter().filter_map(|(key, value)| Some((key.strip_prefix(&format!("{name}/"))?.to_string(), value.clone())));
        side.memory = Memory::restore(side.n(), own.collect())?;
    }
    let adam = optimiser(adam, &pair);
    Ok(Fit::resume(pair, adam, step, guards, seed))
}

impl Pair {
    /// What training remembers beside weights, for a checkpoint.
    pub fn memory(&self, device: &burn::tensor::Device) -> NamedTensors {
        let sides = SIDES.into_iter().zip([&self.input, &self.output]);
        sides
            .flat_map(|(name, side)| side.memory.state(device).into_iter().map(move |(key, value)| (format!("{name}/{key}"), value)))
            .collect()
    }
}

/// Sums weighted losses, and notes each by its name.
struct Ledger {
    step: usize,
    losses: BTreeMap<String, f64>,
    total: Option<burn::tensor::Tensor<1>>,
}

impl Ledger {
    fn add(&mut self, name: String, value: burn::tensor::Tensor<1>, weight: f64, pair: &Pair) -> Result<(), TrainError> {
        let number = f64::from(value.clone().into_scalar::<f32>());
        if !number.is_finite() {
            return Err(TrainError::NotFinite { step: self.step, tensor: culprit(pair).unwrap_or(name) });
        }
        self.losses.insert(name, number);
        let weighted = value * weight;
        self.total = Some(match self.total.take() {
            Some(total) => total + weighted,
            None => weighted,
        });
        Ok(())
    }
}

/// Trains until the plan's steps are done or the observer stops it.
///
/// The same pair, plan, seed and batches give the same bits, also when training
/// is stopped, saved and resumed. Losses are named `input/…` and `output/…`;
/// `jacobian` is the penalty where it was evaluated.
///
/// # Errors
/// [`TrainError::NotFinite`] with the step and the tensor's name, or what the source of batches says.
pub fn train(
    mut fit: PairFit,
    layer: &Layer,
    term: &JacobianTerm,
    batches: &mut dyn Batches,
    plan: &DictionaryPlan,
    observer: &mut dyn Observer<Pair>,
) -> Result<PairFit, DictionaryTrainError> {
    let rate = plan.rate(fit.model.input.n());
    for side in [&mut fit.model.input, &mut fit.model.output] {
        side.precision = plan.precision;
    }
    while fit.step < plan.steps {
        let step = fit.step;
        let batch = lifted_batch(batches.next(step)?, &fit.model.input);
        check_shape(&batch, &fit.model, step)?;
        if step == 0 {
            for (side, of) in [(&mut fit.model.input, &batch.input), (&mut fit.model.output, &batch.target)] {
                if let Some(middle) = plan.centre.of(&without_autodiff(of.clone())) {
                    let middle = lifted(&middle, of);
                    side.b_dec = Param::from_tensor(if middle.device().is_autodiff() { middle.require_grad() } else { middle });
                }
            }
        }
        let at = StepContext::new(fit.seed(), step, plan.steps);
        let weight = term.weight_at(&at) * fit.guards.first().map_or(1.0, |guard| guard.factor);
        let pair = &fit.model;
        let draft = |side: &Dictionary, x: &burn::tensor::Tensor<2>| side.kind.member().draft(side, &Batch::from(x.clone()), &at);
        let drafts = [draft(&pair.input, &batch.input), draft(&pair.output, &batch.target)];
        let [x, y] = drafts.each_ref().map(|draft| draft.codes.active().0);
        let mut ledger = Ledger { step, losses: BTreeMap::new(), total: None };
        let mut left = Vec::new();
        for (name, draft) in SIDES.into_iter().zip(drafts) {
            let Draft { losses, output, smallest, .. } = draft;
            for loss in losses {
                ledger.add(format!("{name}/{}", loss.name), loss.value, loss.weight, pair)?;
            }
            left.push((output, smallest));
        }
        if weight > 0.0 {
            let sample = term.sample(&x, &y, &mut at.stream("jacobian"));
            let reconstructed = left[0].0.clone().narrow(0, 0, sample.tokens);
            let jacobian = blocks(layer, reconstructed, pair.input.w_dec.val(), pair.output.w_enc.val(), &sample.x, &sample.y);
            ledger.add("jacobian".into(), term.value(&jacobian, sample.tokens) * sample.factor, weight, pair)?;
        }
        let Ledger { mut losses, total, .. } = ledger;
        let gradients = total.map(|total| gradients_of(pair, &total.backward())).unwrap_or_default();
        let learning_rate = rate.at(step, plan.steps);
        fit = fit.advance(gradients, learning_rate);
        let sides = [(&mut fit.model.input, &x), (&mut fit.model.output, &y)];
        for ((name, (side, active)), (_, smallest)) in SIDES.into_iter().zip(sides).zip(left) {
            side.memory.observe(active);
            if let Some(smallest) = smallest {
                let momentum = side.kind.member().threshold_momentum();
                side.memory.observe_smallest(smallest, momentum);
            }
            let dead = side.memory.dead(side.kind.member().dead_after_tokens()).len();
            losses.insert(format!("{name}/l0"), active.entries() as f64 / active.rows().max(1) as f64);
            losses.insert(format!("{name}/dead_fraction"), dead as f64 / active.n() as f64);
        }
        let mut flow = Flow::Continue;
        let reconstruction: f64 = SIDES.iter().filter_map(|name| losses.get(&format!("{name}/reconstruction"))).sum();
        if let Some(factor) = term.guard.as_ref().and_then(|guard| guard.observe(fit.guards.first_mut()?, reconstruction)) {
            flow = observer.observe(&Event::Guard { step, penalty: "jacobian", factor }, &fit);
        }
        if observer.observe(&Event::Step { step, losses: &losses, learning_rate }, &fit) == Flow::Stop || flow == Flow::Stop {
            break;
        }
    }
    for side in [&mut fit.model.input, &mut fit.model.output] {
        side.precision = Precision::Single;
    }
    Ok(fit)
}

fn check_shape(batch: &Batch, pair: &Pair, step: usize) -> Result<(), BatchError> {
    let ([rows, input], [targets, output]) = (batch.input.dims(), batch.target.dims());
    let wanted = [pair.input.widths().input, pair.output.widths().input];
    if rows == 0 || rows != targets {
        return Err(BatchError {
            step,
            message: format!("{rows} rows that enter and {targets} that leave; give equally many, at least 1"),
        });
    }
    if [input, output] != wanted {
        let message = format!("widths {input} and {output}; the dictionaries have {} and {}", wanted[0], wanted[1]);
        return Err(BatchError { step, message });
    }
    Ok(())
}

/// The first parameter that is not finite.
fn culprit(pair: &Pair) -> Option<String> {
    parameters(pair)
        .into_iter()
        .find(|(_, (tensor, _))| !tensor.clone().sum().into_scalar::<f32>().is_finite())
        .map(|(name, _)| format!("parameter {name}"))
}
