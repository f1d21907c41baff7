//! `sememe bench pair`: a training step of a pair of dictionaries around an MLP, without and with the penalty on their Jacobian.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use burn::tensor::{Device, Tensor, TensorData};
use clap::Args;
use rand_distr::{Distribution, StandardNormal};
use sememe::Activation;
use sememe::dictionary::{Batch, Centre, DictionaryKind, DictionaryPlan, TopK};
use sememe::pair::{JacobianTerm, Layer, Pair, PairConfig, PairFit, blocks, start, train};
use sememe::train::{Event, Flow, Observer};
use sememe_truth::random::{Stream, stream};
use serde_json::{Value, json};

use super::{Peer, Times};
use crate::command::Context;

/// Arguments of `bench pair`.
#[derive(Args)]
pub struct PairStep {
    /// Tokens a batch.
    #[arg(long, default_value_t = 2048)]
    batch: usize,
    /// Width of the activations.
    #[arg(long, default_value_t = 576)]
    d: usize,
    /// Units of the hidden layer.
    #[arg(long, default_value_t = 1536)]
    h: usize,
    /// An MLP without a gate.
    #[arg(long)]
    ungated: bool,
    /// Latents of each dictionary.
    #[arg(long, default_value_t = 8192)]
    n: usize,
    /// Active latents a token.
    #[arg(long, default_value_t = 32)]
    k: usize,
    /// Times that all sides are timed in turns.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Steps of a side in a turn.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    #[command(flatten)]
    peer: Peer,
}

/// Steps at the start of a turn that are not counted.
const WARM: usize = 2;

struct Clock {
    last: Instant,
    seconds: Vec<f64>,
}

impl Observer<Pair> for Clock {
    fn observe(&mut self, _: &Event<'_>, _: &PairFit) -> Flow {
        self.seconds.push(self.last.elapsed().as_secs_f64());
        self.last = Instant::now();
        Flow::Continue
    }
}

/// What both sides are given.
struct Given {
    layer: Layer,
    batch: Batch,
}

impl PairStep {
    /// Times and prints.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let Self { batch, d, h, n, k, turns, repeat, .. } = *self;
        let given = self.given();
        let full = JacobianTerm { ramp: sememe::schedule::Ramp { length_fraction: 0.0, ..Default::default() }, ..JacobianTerm::default() };
        let sides = [
            ("pair", JacobianTerm { weight: 0.0, ..full.clone() }),
            ("pair with penalty", full.clone()),
            ("penalty on a quarter of the latents", JacobianTerm { latents_fraction: 0.25, ..full.clone() }),
            ("penalty on a quarter of the tokens", JacobianTerm { tokens: batch / 4, ..full.clone() }),
            ("penalty on every 4th step", JacobianTerm { every: 4, ..full.clone() }),
            ("both, latents and steps", JacobianTerm { every: 4, latents_fraction: 0.25, ..full.clone() }),
        ];
        let file = std::env::temp_dir().join(format!("sememe-pair-{}.bin", std::process::id()));
        let arguments: Vec<String> = std::iter::once(file.display().to_string())
            .chain([batch, d, h, usize::from(!self.ungated), n, k, repeat].map(|number| number.to_string()))
            .collect();
        self.write(&given, &file)?;
        let ours = self.penalty(&given)?;
        let mut times = Times::default();
        let mut theirs = None;
        for _ in 0..turns {
            for (name, term) in &sides {
                let seconds = self.steps(&given, term)?;
                // Of a penalty that is not in every step the mean counts, which the median would miss.
                times.add(name, if term.every > 1 { vec![seconds.iter().sum::<f64>() / seconds.len() as f64] } else { seconds });
            }
            let lines = self.peer.lines("jacobian_pair.py", &arguments);
            let lines = match lines {
                Ok(lines) => lines,
                Err(error) => {
                    let _ = std::fs::remove_file(&file);
                    return Err(error);
                }
            };
            for line in lines {
                match (line["step"].as_str(), line["median_ms"].as_f64()) {
                    (Some(name), Some(milliseconds)) => times.add(&format!("PyTorch {name}"), [milliseconds / 1e3]),
                    _ => theirs = Some(line),
                }
            }
        }
        let _ = std::fs::remove_file(&file);
        let gate = if self.ungated { "ungated" } else { "gated" };
        let mut text = format!("batch {batch}, d {d}, h {h} {gate}, n {n}, k {k}, f32; medians over {turns} turns\n");
        for (name, milliseconds) in times.medians() {
            text += &format!("  {name:40} {milliseconds:8.1} ms\n");
        }
        let ratios = [
            ("with penalty over without", "pair with penalty", "pair"),
            ("… on a quarter of the latents", "penalty on a quarter of the latents", "pair"),
            ("… on a quarter of the tokens", "penalty on a quarter of the tokens", "pair"),
            ("… on every 4th step", "penalty on every 4th step", "pair"),
            ("… on both, latents and steps", "both, latents and steps", "pair"),
            ("PyTorch: with penalty over without", "PyTorch pair with penalty", "PyTorch pair"),
            ("PyTorch over ours, with penalty", "PyTorch pair with penalty", "pair with penalty"),
            ("PyTorch over ours, without", "PyTorch pair", "pair"),
        ];
        let known: Vec<(&str, f64)> = ratios.iter().filter_map(|(name, a, b)| Some((*name, times.ratio(a, b)?))).collect();
        for (name, ratio) in &known {
            text += &format!("  {name:40} {ratio:5.2}\n");
        }
        if let Some(theirs) = &theirs {
            let worst = difference(&ours, theirs);
            text += &format!("  largest relative difference of the penalty and its gradients' norms: {worst:.1e}\n");
            if worst.is_nan() || worst > 1e-4 {
                bail!("ours {ours}, theirs {theirs}: they differ by {worst:.1e}");
            }
        }
        context.result(&text, &json!({"ms": times.medians(), "ratios": known, "ours": ours, "theirs": theirs}));
        Ok(ExitCode::SUCCESS)
    }

    fn given(&self) -> Given {
        let Self { batch, d, h, .. } = *self;
        let draw = &mut stream(0, "bench pair");
        let mut matrix = |rows: usize, columns: usize, scale: f64| normal(draw, [rows, columns], scale);
        let branches = if self.ungated { 1 } else { 2 };
        let layer = Layer {
            into: matrix(d, branches * h, 1.0 / (d as f64).sqrt()),
            into_bias: None,
            out: matrix(h, d, 1.0 / (h as f64).sqrt()),
            out_bias: None,
            activation: Activation::Silu,
            is_gated: !self.ungated,
            norm_before: None,
            norm_after: None,
            is_residual: false,
            scale_in: 1.0,
            scale_out: 1.0,
        };
        let input = matrix(batch, d, 1.0);
        let target = layer.apply(input.clone());
        Given { batch: Batch { input, target }, layer }
    }

    fn pair(&self, device: &Device) -> Result<Pair> {
        let config = PairConfig { input: DictionaryKind::TopK(TopK { n: self.n, k: self.k, ..TopK::default() }), ..PairConfig::default() };
        Ok(Pair::new(&config, self.d, self.d, 0, device)?)
    }

    /// The numbers that the other tool begins with.
    fn write(&self, given: &Given, file: &std::path::Path) -> Result<()> {
        if self.peer.python.is_none() {
            return Ok(());
        }
        let pair = self.pair(&Device::flex())?;
        let named = || file.display().to_string();
        let mut out = std::io::BufWriter::new(std::fs::File::create(file).with_context(named)?);
        let Given { layer, batch } = given;
        let (enc_x, dec_x) = (pair.input.w_enc.val(), pair.input.w_dec.val());
        let (enc_y, dec_y) = (pair.output.w_enc.val(), pair.output.w_dec.val());
        for matrix in [&batch.input, &batch.target, &layer.into, &layer.out, &enc_x, &dec_x, &enc_y, &dec_y] {
            let bytes: Vec<u8> = matrix.to_data().iter::<f32>().flat_map(f32::to_le_bytes).collect();
            out.write_all(&bytes).with_context(named)?;
        }
        out.flush().with_context(named)
    }

    /// The penalty at the beginning, and the norms of its gradients.
    fn penalty(&self, given: &Given) -> Result<Value> {
        let device = Device::flex().autodiff();
        let pair = self.pair(&device)?;
        let [x, y] = [&given.batch.input, &given.batch.target].map(|rows| Tensor::from_inner(rows.clone()));
        let codes = pair.input.codes(x.clone());
        let reconstructed = pair.input.decode(&codes, &x);
        let (active_x, active_y) = (codes.active().0, pair.output.codes(y).active().0);
        let (decoder, encoder) = (pair.input.w_dec.val(), pair.output.w_enc.val());
        let found = blocks(&given.layer, reconstructed, decoder.clone(), encoder.clone(), &active_x, &active_y);
        let value = JacobianTerm::default().value(&found, self.batch);
        let gradients = value.backward();
        let norm = |tensor: &Tensor<2>| -> f64 {
            let gradient = tensor.grad(&gradients).map(|gradient| gradient.into_data().iter::<f32>().map(f64::from).collect::<Vec<f64>>());
            gradient.unwrap_or_default().iter().map(|g| g * g).sum::<f64>().sqrt()
        };
        let norms = json!({"w_dec_x": norm(&decoder), "w_enc_y": norm(&encoder), "w_enc_x": norm(&pair.input.w_enc.val())});
        Ok(json!({"penalty": value.into_scalar::<f32>(), "gradients": norms}))
    }

    /// Seconds of each step.
    fn steps(&self, given: &Given, term: &JacobianTerm) -> Result<Vec<f64>> {
        let pair = self.pair(&Device::flex().autodiff())?;
        let steps = if term.every > 1 { WARM + self.repeat.next_multiple_of(term.every) } else { WARM + self.repeat };
        let plan = DictionaryPlan { steps, warm_up_steps: 1, centre: Centre::Zero, ..DictionaryPlan::default() };
        let mut clock = Clock { last: Instant::now(), seconds: Vec::new() };
        train(start(pair, &plan, 0), &given.layer, term, &mut |_| Ok(given.batch.clone()), &plan, &mut clock)?;
        Ok(clock.seconds.split_off(WARM))
    }
}

fn normal(draw: &mut Stream, [rows, columns]: [usize; 2], scale: f64) -> Tensor<2> {
    let values: Vec<f32> = (0..rows * columns)
        .map(|_| {
            let unit: f64 = StandardNormal.sample(draw);
            (unit * scale) as f32
        })
        .collect();
    Tensor::from_data(TensorData::new(values, [rows, columns]), &Device::flex())
}

/// The largest relative difference of numbers of the same names.
fn difference(ours: &Value, theirs: &Value) -> f64 {
    let relative = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() / b.abs().max(f64::MIN_POSITIVE),
        _ => f64::NAN,
    };
    let gradients = ["w_dec_x", "w_enc_y", "w_enc_x"].map(|name| relative(&ours["gradients"][name], &theirs["gradients"][name]));
    gradients
        .into_iter()
        .chain([relative(&ours["penalty"], &theirs["penalty"])])
        .fold(0.0, |worst: f64, next| if next.is_nan() { next } else { worst.max(next) })
}
