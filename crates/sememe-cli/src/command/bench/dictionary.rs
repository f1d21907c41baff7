//! `sememe bench dictionary`: a whole training step (forward, backward, clipping, Adam, unit rows) of sparse dictionaries.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use burn::tensor::{Device, Tensor, TensorData};
use clap::Args;
use rand_distr::{Distribution, StandardNormal};
use sememe::dictionary::{Batch, BatchTopK, Centre, Dictionary, DictionaryKind, DictionaryPlan, TopK, Widths, start, train};
use sememe::train::{Event, Fit, Flow, Observer};
use sememe_kernels::{Choice, Precision, encode_top};
use sememe_truth::random::stream;
use serde_json::json;

use super::{Peer, Times};
use crate::command::Context;

/// Arguments of `bench dictionary`.
#[derive(Args)]
pub struct Step {
    /// Tokens a batch.
    #[arg(long, default_value_t = 2048)]
    batch: usize,
    /// Width of the activations.
    #[arg(long, default_value_t = 768)]
    d: usize,
    /// Latents.
    #[arg(long, default_value_t = 8192)]
    n: usize,
    /// Active latents a token.
    #[arg(long, default_value_t = 32)]
    k: usize,
    /// Times that all sides are timed in turns.
    #[arg(long, default_value_t = 4)]
    turns: usize,
    /// Steps of a side in a turn.
    #[arg(long, default_value_t = 6)]
    repeat: usize,
    #[command(flatten)]
    peer: Peer,
}

/// Steps at the start of a turn that are not counted.
const WARM: usize = 2;

/// Seconds of each step.
pub(super) struct Clock {
    pub last: Instant,
    pub seconds: Vec<f64>,
}

impl Observer<Dictionary> for Clock {
    fn observe(&mut self, _: &Event<'_>, _: &Fit<Dictionary>) -> Flow {
        self.seconds.push(self.last.elapsed().as_secs_f64());
        self.last = Instant::now();
        Flow::Continue
    }
}

impl Step {
    /// Times and prints.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let Self { batch, d, n, k, turns, repeat, .. } = *self;
        let plain = Device::flex();
        let draw = &mut stream(0, "bench");
        let values: Vec<f32> = (0..batch * d).map(|_| StandardNormal.sample(draw)).collect();
        let x = Tensor::<2>::from_data(TensorData::new(values, [batch, d]), &plain);
        let topk = || DictionaryKind::TopK(TopK { n, k, ..TopK::default() });
        let batchtopk = || DictionaryKind::BatchTopK(BatchTopK { n, k, ..BatchTopK::default() });
        let untrained = Dictionary::new(topk(), Widths::same(d), 0, &plain)?;
        let (weights, bias, centre) = (untrained.w_enc.val(), untrained.b_enc.val(), untrained.b_dec.val());
        let mut times = Times::default();
        for _ in 0..turns {
            let product = || {
                let started = Instant::now();
                drop(x.clone().matmul(weights.clone().transpose()));
                started.elapsed().as_secs_f64()
            };
            times.add("encoder product", (0..repeat + WARM).map(|_| product()).skip(WARM).collect::<Vec<_>>());
            for (name, precision) in
                [("encoder product and choice", Precision::Single), ("encoder product and choice, bf16", Precision::Bf16)]
            {
                let chosen = || {
                    let started = Instant::now();
                    drop(encode_top(x.clone(), centre.clone(), weights.clone(), bias.clone(), &Choice::PerRow(k), precision));
                    started.elapsed().as_secs_f64()
                };
                times.add(name, (0..repeat + WARM).map(|_| chosen()).skip(WARM).collect::<Vec<_>>());
            }
            for (name, kind, precision) in [
                ("topk step", topk(), Precision::Single),
                ("batchtopk step", batchtopk(), Precision::Single),
                ("topk step, bf16 product", topk(), Precision::Bf16),
                ("batchtopk step, bf16 product", batchtopk(), Precision::Bf16),
            ] {
                times.add(name, self.steps(kind, precision, &x)?);
            }
            let arguments = [batch, d, n, k, repeat].map(|number| number.to_string());
            for line in self.peer.lines("topk_step.py", &arguments)? {
                if let (Some(name), Some(milliseconds)) = (line["step"].as_str(), line["median_ms"].as_f64()) {
                    times.add(&format!("PyTorch {name}"), [milliseconds / 1e3]);
                }
            }
        }
        let mut text = format!("batch {batch}, d {d}, n {n}, k {k}, f32; medians over {turns} turns\n");
        for (name, milliseconds) in times.medians() {
            text += &format!("  {name:36} {milliseconds:8.1} ms\n");
        }
        let ratios = [
            ("topk step over its encoder product", "topk step", "encoder product"),
            ("batchtopk over topk", "batchtopk step", "topk step"),
            ("f32 over bf16, product and choice", "encoder product and choice", "encoder product and choice, bf16"),
            ("f32 over bf16, topk step", "topk step", "topk step, bf16 product"),
            ("PyTorch, dense decoder, over ours", "PyTorch topk, dense decoder", "topk step"),
            ("PyTorch, sparse decoder, over ours", "PyTorch topk, sparse decoder", "topk step"),
            ("PyTorch batchtopk, dense, over ours", "PyTorch batchtopk, dense decoder", "batchtopk step"),
            ("PyTorch batchtopk, sparse, over ours", "PyTorch batchtopk, sparse decoder", "batchtopk step"),
        ];
        let known: Vec<(&str, f64)> = ratios.iter().filter_map(|(name, a, b)| Some((*name, times.ratio(a, b)?))).collect();
        for (name, ratio) in &known {
            text += &format!("  {name:40} {ratio:5.2}\n");
        }
        context.result(&text, &json!({"ms": times.medians(), "ratios": known}));
        Ok(ExitCode::SUCCESS)
    }

    /// Seconds of each step.
    fn steps(&self, kind: DictionaryKind, precision: Precision, x: &Tensor<2>) -> Result<Vec<f64>> {
        let dictionary = Dictionary::new(kind, Widths::same(self.d), 0, &Device::flex().autodiff())?;
        let plan =
            DictionaryPlan { precision, steps: self.repeat + WARM, warm_up_steps: 1, centre: Centre::Zero, ..DictionaryPlan::default() };
        let mut clock = Clock { last: Instant::now(), seconds: Vec::new() };
        let batch: Batch = x.clone().into();
        train(start(dictionary, &plan, 0), &mut |_| Ok(batch.clone()), &plan, &mut clock)?;
        Ok(clock.seconds.split_off(WARM))
    }
}
