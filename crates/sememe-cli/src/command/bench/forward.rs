//! `sememe bench forward`: tokens a second of a language model up to a layer and as a whole.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use burn::tensor::Device;
use clap::Args;
use sememe_lm::{Hook, Place, Tokens, load_model};
use serde_json::json;

use super::{Peer, Times};
use crate::command::Context;

/// Arguments of `bench forward`.
#[derive(Args)]
pub struct Forward {
    /// A Hugging Face folder or a GGUF file.
    #[arg(long, default_value = "models/SmolLM2-135M-Instruct.Q4_1.gguf")]
    model: String,
    /// Contexts in a pass.
    #[arg(long, default_value_t = 8)]
    rows: usize,
    /// Tokens of a context.
    #[arg(long, default_value_t = 256)]
    length: usize,
    /// Times that both sides are timed in turns.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    #[command(flatten)]
    peer: Peer,
}

/// Passes of a side in a turn, after one that is not counted.
const PASSES: usize = 3;

impl Forward {
    /// Times and prints.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let Self { rows, length, turns, .. } = *self;
        let model = load_model(&self.model, &Device::flex())?;
        let (vocabulary, last) = (model.description().vocabulary, model.description().layers() - 1);
        let ids = |row: usize| (0..length).map(|t| ((row * 7919 + t * 104_729) % vocabulary) as u32).collect();
        let tokens = Tokens::new(&(0..rows).map(ids).collect::<Vec<_>>());
        let mut times = Times::default();
        for _ in 0..turns {
            for layer in [12, 15, last].into_iter().filter(|&layer| layer <= last) {
                let pass = || model.read(&tokens, &[Hook::new(layer, Place::ResidPost)]).map(drop);
                times.add(&format!("layers 0 to {layer}"), timed(&pass)?);
            }
            times.add("whole, with cross-entropy", timed(&|| model.nats(&tokens).map(drop))?);
            for line in self.peer.lines("transformers_forward.py", &[self.model.clone(), rows.to_string(), length.to_string()])? {
                if let (Some(part), Some(seconds)) = (line["part"].as_str(), line["median_seconds"].as_f64()) {
                    times.add(&format!("transformers, {part}"), [seconds]);
                }
            }
        }
        let count = 1e3 * (rows * length) as f64;
        let mut text = format!("{}: {rows} contexts of {length} tokens, f32; medians over {turns} turns\n", self.model);
        for (name, milliseconds) in times.medians() {
            text += &format!("  {name:44} {:9.0} tokens/s\n", count / milliseconds);
        }
        let mut ratios = Vec::new();
        for (name, ours) in times.medians() {
            if let Some(theirs) = times.of(&format!("transformers, {name}")) {
                text += &format!("  ours over transformers, {name:28} {:5.2}\n", theirs / ours);
                ratios.push((name, theirs / ours));
            }
        }
        context.result(&text, &json!({"ms": times.medians(), "ratios": ratios}));
        Ok(ExitCode::SUCCESS)
    }
}

fn timed(pass: &dyn Fn() -> Result<(), sememe_lm::LmError>) -> Result<Vec<f64>> {
    pass()?;
    let one = || {
        let started = Instant::now();
        pass()?;
        Ok(started.elapsed().as_secs_f64())
    };
    (0..PASSES).map(|_| one()).collect()
}
