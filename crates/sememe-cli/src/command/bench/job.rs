//! `sememe bench job`: what reading shards, observing and scoring add to the bare training steps.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use burn::tensor::Device;
use clap::Args;
use sememe::dictionary::{Batch, Batches, Dictionary, DictionaryKind, DictionaryPlan, TopK, Widths, start, train};
use sememe::train::{Event, Fit, Flow, Observer};
use sememe_run::activations::{Activations, Hooks, ShardBatches};
use sememe_run::config;
use sememe_run::dictionary;
use sememe_run::observe::Verbosity;
use sememe_run::start::{Outcome, RunOptions};
use serde_json::json;

use crate::command::Context;

/// Arguments of `bench job`.
#[derive(Args)]
pub struct Job {
    /// Activations (`sememe harvest`).
    #[arg(long)]
    data: PathBuf,
    /// Latents.
    #[arg(long, default_value_t = 8192)]
    n: usize,
    /// Active latents a token.
    #[arg(long, default_value_t = 32)]
    k: usize,
    /// Tokens a batch.
    #[arg(long, default_value_t = 2048)]
    batch: usize,
    /// Training steps.
    #[arg(long, default_value_t = 1000)]
    steps: usize,
}

/// Batches that the bare steps go through, in memory.
const IN_MEMORY: usize = 8;

struct Silent;

impl Observer<Dictionary> for Silent {
    fn observe(&mut self, _: &Event<'_>, _: &Fit<Dictionary>) -> Flow {
        Flow::Continue
    }
}

impl Job {
    /// Times and prints.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let Self { n, k, batch, steps, .. } = *self;
        let source = Activations::open(&self.data)?;
        let width = source.manifest.hooks[0].width;
        let hooks = Hooks { input: vec![(0, source.scale(0))], target: Vec::new() };
        let mut shards = ShardBatches::new(source, hooks, batch, 0, Device::flex())?;
        let kept: Vec<Batch> = (0..IN_MEMORY).map(|step| shards.next(step)).collect::<Result<_, _>>()?;
        drop(shards);
        let kind = DictionaryKind::TopK(TopK { n, k, ..TopK::default() });
        let plan = DictionaryPlan { steps, batch_tokens: batch, warm_up_steps: steps / 10, ..DictionaryPlan::default() };
        let bare = || -> Result<f64> {
            let dictionary = Dictionary::new(kind.clone(), Widths::same(width), 0, &Device::flex().autodiff())?;
            let started = Instant::now();
            train(start(dictionary, &plan, 0), &mut |step: usize| Ok(kept[step % IN_MEMORY].clone()), &plan, &mut Silent)?;
            Ok(started.elapsed().as_secs_f64())
        };
        let folder = std::env::temp_dir().join(format!("sememe-bench-job-{}", std::process::id()));
        let text = format!(
            "[data]\nactivations = {:?}\nhooks = [{:?}]\n[dictionary]\nname = \"topk\"\nn = {n}\nk = {k}\n[training]\nsteps = {steps}\nbatch_tokens = {batch}\nwarm_up_steps = {}\n[evaluation]\ncontexts = 0\n[output]\ncheckpoint_every = 1000000",
            self.data.display().to_string(),
            Activations::open(&self.data)?.manifest.hooks[0].hook,
            steps / 10
        );
        let config: dictionary::Config = config::parse(&text, "bench", &[])?;
        let options = RunOptions { verbosity: Verbosity::Quiet, ..context.run_options(false, true, None) };
        let whole = || -> Result<f64> {
            let started = Instant::now();
            match dictionary::train(&config, &folder, &options, None)? {
                Outcome::Finished(_) => Ok(started.elapsed().as_secs_f64()),
                Outcome::Interrupted { .. } => bail!("interrupted"),
            }
        };
        // In turns, so that both see the same machine.
        let times = [bare()?, whole()?, bare()?, whole()?];
        std::fs::remove_dir_all(&folder)?;
        let (bare, whole) = ((times[0] + times[2]) / 2.0, (times[1] + times[3]) / 2.0);
        let rate = |seconds: f64| (steps * batch) as f64 / seconds;
        let text = format!(
            "{steps} steps of {batch} tokens, n {n}, k {k}\n  bare steps, batches in memory          {bare:7.2} s  {:8.0} tokens/s\n  shards, training, metrics and report   {whole:7.2} s  {:8.0} tokens/s\n  whole over bare                        {:5.2}\n",
            rate(bare),
            rate(whole),
            whole / bare
        );
        context.result(&text, &json!({"bare_s": bare, "whole_s": whole, "ratio": whole / bare}));
        Ok(ExitCode::SUCCESS)
    }
}
