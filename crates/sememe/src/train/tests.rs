//! Laws of training: chunks and accumulation change no gradient, the same seed gives the same bits, and a run can be cut in two.

use burn::tensor::{Device, Distribution, Tensor};
use serde_json::json;

use super::*;
use crate::generative::{Vae, VaeConfig};
use crate::penalty::{Needs, PenaltyKind};
use crate::schedule::{Guard, Ramp};

struct Until(usize);

impl<M> Observer<M> for Until {
    fn observe(&mut self, event: &Event<'_>, _: &Fit<M>) -> Flow {
        match event {
            Event::Step { step, .. } if step + 1 == self.0 => Flow::Stop,
            _ => Flow::Continue,
        }
    }
}

fn data() -> Tensor<2> {
    let device = Device::flex();
    device.seed(1);
    let z = Tensor::<2>::random([64, 3], Distribution::Normal(0.0, 1.0), &device);
    let mix = Tensor::<2>::from_floats([[1.0, 0.5, 0.0, 0.0, -1.0], [0.0, 1.0, 1.0, 0.0, 0.3], [0.0, 0.0, 0.5, 1.0, 0.0]], &device);
    Tensor::from_inner(z.matmul(mix).tanh())
}

fn model() -> Vae {
    let config = VaeConfig { dz: 3, encoder_widths: vec![8], decoder_widths: vec![6], ..VaeConfig::default() };
    config.init(5, 3, &Device::flex().autodiff()).unwrap_or_else(|error| panic!("{error}"))
}

fn term(kind: PenaltyKind) -> Term {
    Term { ramp: Ramp { length_fraction: 0.0, ..Ramp::default() }, ..Term::new(kind, 0.1) }
}

fn trained(plan: &Plan, terms: &[Term], stop: usize, from: Option<Fit<Vae>>) -> Fit<Vae> {
    let fit = from.unwrap_or_else(|| Fit::new(model(), plan, terms, 5));
    fit.run(&data(), plan, terms, &mut Until(stop)).unwrap_or_else(|error| panic!("{error}"))
}

fn weights(fit: &Fit<Vae>) -> Vec<f32> {
    parameters(&fit.model).into_values().flat_map(|(tensor, _)| tensor.into_data().iter::<f32>().collect::<Vec<_>>()).collect()
}

fn plan(steps: usize) -> Plan {
    Plan {
        steps,
        batch: 16,
        realign: Some(Realign { at_fractions: vec![0.5], starts: 3, iterations: 10, ..Realign::default() }),
        ..Plan::default()
    }
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Recomputation in chunks gives the step of the whole batch, for every penalty that allows it and draws nothing at random.
#[test]
fn chunks_change_no_gradient() {
    for kind in PenaltyKind::defaults() {
        if matches!(kind.member().needs(), Needs::MeanOverSamples | Needs::Directions) {
            continue;
        }
        let whole = trained(&plan(1), &[term(kind.clone())], 1, None);
        let chunked = trained(&plan(1), &[Term { chunk: 5, ..term(kind.clone()) }], 1, None);
        let moments = |fit: &Fit<Vae>| {
            fit.adam.state().into_values().flat_map(|(m, _)| m.into_data().iter::<f32>().collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let (a, b) = (moments(&whole), moments(&chunked));
        let scale = a.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        assert!(largest_difference(&a, &b) < 1e-4 * scale.max(1e-3), "{}: {} of {scale}", kind.tag(), largest_difference(&a, &b));
    }
}

#[test]
fn the_same_seed_gives_the_same_bits_and_a_run_can_be_cut_in_two() {
    let guard = Guard { patience: 3, fraction: 0.01, ..Guard::default() };
    let kind: PenaltyKind = serde_json::from_value(json!({"name": "dependency-l1"})).unwrap_or_else(|error| panic!("{error}"));
    let terms = [Term { guard: Some(guard), ..term(kind) }];
    let plan = plan(30);
    let whole = trained(&plan, &terms, 30, None);
    assert!(weights(&whole) == weights(&trained(&plan, &terms, 30, None)));
    let half = trained(&plan, &terms, 13, None);
    let adam = Adam::restore(plan.adam.clone(), half.adam.taken, half.adam.state()).unwrap_or_else(|error| panic!("{error}"));
    let model = replace_parameters(model(), parameters(&half.model)).unwrap_or_else(|error| panic!("{error}"));
    let resumed = trained(&plan, &terms, 30, Some(Fit::resume(model, adam, half.step, half.guards.clone(), 5)));
    assert!(weights(&whole) == weights(&resumed));
}

/// Every penalty trains without upsetting the numbers, and reaches the decoder.
#[test]
fn every_penalty_trains() {
    let without = weights(&trained(&plan(4), &[], 4, None));
    for kind in PenaltyKind::defaults() {
        let with = weights(&trained(&plan(4), &[term(kind.clone())], 4, None));
        assert!(with.iter().all(|w| w.is_finite()) && with != without, "{}", kind.tag());
    }
}

#[test]
fn numbers_that_are_not_finite_stop_training_with_their_name() {
    let plan = plan(3);
    let x = data().mul_scalar(f32::NAN);
    let error = Fit::new(model(), &plan, &[], 5).run(&x, &plan, &[], &mut Until(3)).map(|_| ()).err();
    let Some(TrainError::NotFinite { step: 0, tensor }) = error else { panic!("{error:?}") };
    assert_eq!(tensor, "kl");
}
