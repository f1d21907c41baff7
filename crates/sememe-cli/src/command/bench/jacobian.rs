//! `sememe bench jacobian`: the time of the exact Jacobian penalty, alone and within a training step, in one run.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use burn::module::Module;
use burn::tensor::{Device, Distribution, Tensor};
use clap::Args;
use sememe::Activation;
use sememe::generative::{DecoderKind, Mlp, VaeConfig};
use sememe::jacobian::ColumnChoice;
use sememe::penalty::{PenaltyKind, Point};
use sememe::train::{Event, Fit, Flow, Observer, Plan, Term};
use sememe_truth::random::stream;
use serde_json::json;

use super::median;
use crate::command::Context;

/// Arguments of `bench jacobian`.
#[derive(Args)]
pub struct Jacobian {
    /// Repetitions, after a warm-up.
    #[arg(long, default_value_t = 30)]
    repeat: usize,
}

/// Sizes of the decoder whose Jacobian is timed, and the batch.
const SIZES: [usize; 4] = [16, 256, 256, 784];
const BATCH: usize = 128;
/// Times that a step with the penalty and one without are timed in turns.
const TURNS: usize = 5;

struct Silent;

impl<M> Observer<M> for Silent {
    fn observe(&mut self, _: &Event<'_>, _: &Fit<M>) -> Flow {
        Flow::Continue
    }
}

impl Jacobian {
    /// Times and prints.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let device = Device::flex().autodiff();
        let decoder = Mlp::new(&SIZES, Activation::Gelu, &device, &mut stream(0, "bench"));
        device.seed(0);
        let latents: Tensor<2> = Tensor::random([BATCH, SIZES[0]], Distribution::Normal(0.0, 1.0), &device);
        let penalty = PenaltyKind::defaults().swap_remove(0);
        let value_and_gradient = || {
            let at = Point::new(&decoder, latents.clone(), None, ColumnChoice::All, stream(0, "bench/columns"));
            let started = Instant::now();
            let value = penalty.member().value(&at);
            let gradients = value.backward();
            let weight = decoder.layers[0].weight.val().grad(&gradients);
            (started.elapsed().as_secs_f64(), value.into_scalar::<f32>(), weight)
        };
        let value = value_and_gradient().1;
        let jacobian = median((0..self.repeat).map(|_| value_and_gradient().0).collect());
        let mut text = format!(
            "L1 of the full Jacobian of {SIZES:?}, batch {BATCH}: value and gradient {jacobian:.2} ms (value {value:.4})\n\ntraining step, VAE with dz 16, dx 32, batch 256\n"
        );
        let mut steps = Vec::new();
        let term = |columns| Term { columns, ..Term::new(penalty.clone(), 0.05) };
        for (decoder, widths) in [(DecoderKind::PerObserved, vec![16, 16]), (DecoderKind::Shared, vec![128, 128])] {
            let cases = [
                ("all columns", term(ColumnChoice::All)),
                ("all columns on 64 of the 256 samples", Term { samples: 64, ..term(ColumnChoice::All) }),
                ("2 random columns", term(ColumnChoice::Random(2))),
                ("all columns, every 8th step", Term { every: 8, ..term(ColumnChoice::All) }),
            ];
            for (name, term) in cases {
                // In turns, so that both see the same machine.
                let mut times = (Vec::new(), Vec::new());
                for _ in 0..TURNS {
                    times.0.push(self.step(decoder, &widths, Vec::new())?);
                    times.1.push(self.step(decoder, &widths, vec![term.clone()])?);
                }
                let (plain, with) = (median(times.0), median(times.1));
                text += &format!("  {decoder:?} decoder, {name}: {with:.2} ms, without {plain:.2} ms, ratio {:.2}\n", with / plain);
                steps.push(json!({"decoder": format!("{decoder:?}"), "columns": name, "with_ms": with, "without_ms": plain}));
            }
        }
        context.result(&text, &json!({"jacobian_l1_ms": jacobian, "value": value, "steps": steps}));
        Ok(ExitCode::SUCCESS)
    }

    /// Mean seconds of a training step.
    fn step(&self, decoder: DecoderKind, widths: &[usize], mut terms: Vec<Term>) -> Result<f64> {
        let device = Device::flex().autodiff();
        terms.iter_mut().for_each(|term| term.ramp.length_fraction = 0.0);
        let config = VaeConfig { dz: 16, decoder, decoder_widths: widths.to_vec(), ..VaeConfig::default() };
        device.seed(1);
        let data: Tensor<2> = Tensor::random([4096, 32], Distribution::Normal(0.0, 1.0), &device);
        let model = config.init(32, 0, &device)?.materialize();
        let plan = Plan { steps: 16 + self.repeat.next_multiple_of(8), ..Plan::default() };
        let warm = Plan { steps: 16, ..plan.clone() };
        let fit = Fit::new(model, &warm, &terms, 0).run(&data, &warm, &terms, &mut Silent)?;
        let started = Instant::now();
        let from = fit.step;
        let fit = fit.run(&data, &plan, &terms, &mut Silent)?;
        Ok(started.elapsed().as_secs_f64() / (fit.step - from).max(1) as f64)
    }
}
