//! `sememe harvest MODEL --layer 12 --hook resid_post --text FILES -o acts/`: a model's activations as shards to train on.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use sememe_run::activations::{Activations, HarvestConfig, Harvested, Precision, harvest};
use serde_json::json;

use super::{Context, INTERRUPTED};

/// How numbers are stored.
#[derive(Clone, Copy, ValueEnum)]
enum Stored {
    F32,
    F16,
    Bf16,
}

/// Which activations of which model on which text.
#[derive(Args)]
pub struct Reading {
    /// Layer of hooks that are given without one.
    #[arg(long)]
    layer: Option<usize>,
    /// Place (`resid_post`, `mlp_in`, …; `resid` is `resid_post`) or layer and place (`12.mlp_out`); several times for several.
    #[arg(long, value_name = "HOOK")]
    hook: Vec<String>,
    /// Files and folders of text (.txt, .jsonl, .parquet).
    #[arg(long, num_args = 1.., value_name = "FILES")]
    text: Vec<PathBuf>,
    /// Key (.jsonl) or column (.parquet) that holds the text [default: text].
    #[arg(long)]
    text_key: Option<String>,
    /// Tokens of the longest context.
    #[arg(long, default_value_t = HarvestConfig::default().context_tokens)]
    context_tokens: usize,
    /// Contexts in a forward pass.
    #[arg(long, default_value_t = HarvestConfig::default().batch_contexts)]
    batch_contexts: usize,
    /// The shuffle buffer: memory that activations take, in MiB.
    #[arg(long, default_value_t = HarvestConfig::default().buffer_mib)]
    buffer_mib: usize,
    /// Share of the text that is held out for evaluation.
    #[arg(long, default_value_t = HarvestConfig::default().test_fraction)]
    test_fraction: f64,
    /// Held-out tokens at most; 0 for no limit.
    #[arg(long, default_value_t = 0)]
    test_tokens: usize,
    /// Keep the first token of each context (an attention sink in many models).
    #[arg(long)]
    keep_first: bool,
    /// Keep special tokens.
    #[arg(long)]
    keep_special: bool,
}

impl Reading {
    /// The hooks as layer and place.
    fn hooks(&self) -> Result<Vec<String>> {
        if self.hook.is_empty() {
            bail!("give a place to read, such as --layer 12 --hook resid_post");
        }
        let named = self.hook.iter().map(|hook| {
            let hook = if hook == "resid" { "resid_post" } else { hook };
            match (hook.contains('.'), self.layer) {
                (true, _) => Ok(hook.to_string()),
                (false, Some(layer)) => Ok(format!("{layer}.{hook}")),
                (false, None) => bail!("--hook {hook}: give the layer too, with --layer, or write it as 12.{hook}"),
            }
        });
        named.collect()
    }

    /// What is harvested from `model`.
    pub fn config(&self, model: &str, seed: u64) -> Result<HarvestConfig> {
        Ok(HarvestConfig {
            model: model.into(),
            text: self.text.clone(),
            text_key: self.text_key.clone(),
            hooks: self.hooks()?,
            context_tokens: self.context_tokens,
            batch_contexts: self.batch_contexts,
            buffer_mib: self.buffer_mib,
            test_fraction: self.test_fraction,
            test_tokens: self.test_tokens,
            keep_first: self.keep_first,
            keep_special: self.keep_special,
            seed,
            ..HarvestConfig::default()
        })
    }

    /// Whether a hook or text was given.
    pub fn is_given(&self) -> bool {
        !self.hook.is_empty() || !self.text.is_empty()
    }
}

/// Arguments of `harvest`.
#[derive(Args)]
pub struct Harvest {
    /// A Hugging Face folder, a GGUF file, or `hf:org/name` in the local cache.
    model: String,
    #[command(flatten)]
    reading: Reading,
    /// Folder of the activations.
    #[arg(short, long)]
    out: PathBuf,
    /// Tokens to train on [default: all of the text].
    #[arg(long, default_value_t = 0)]
    tokens: usize,
    /// How numbers are stored.
    #[arg(long, value_enum, default_value = "bf16")]
    precision: Stored,
    /// Tokens in a shard at most.
    #[arg(long, default_value_t = HarvestConfig::default().shard_tokens)]
    shard_tokens: usize,
    /// Seed of order and held-out text.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Go on with a harvest that was stopped.
    #[arg(long)]
    resume: bool,
    /// Replace the activations that the folder holds.
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
}

/// What a folder holds, in words.
fn described(source: &Activations) -> String {
    let manifest = &source.manifest;
    let hooks: Vec<String> = manifest.hooks.iter().map(|info| format!("{} ({} wide)", info.hook, info.width)).collect();
    let kinds = match (manifest.left_out.first, manifest.left_out.special) {
        (true, true) => "the first of each context and special tokens",
        (true, false) => "the first of each context",
        (false, true) => "special tokens",
        (false, false) => "none",
    };
    format!(
        "{}\n  hooks: {}\n  {} tokens to train on in {} shards, {} held out\n  left out: {} tokens ({kinds})",
        source.path.display(),
        hooks.join(", "),
        manifest.train_tokens(),
        manifest.train.len(),
        manifest.test_tokens(),
        manifest.left_out.tokens,
    )
}

impl Harvest {
    /// Harvests and says what is there.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let precision = match self.precision {
            Stored::F32 => Precision::F32,
            Stored::F16 => Precision::F16,
            Stored::Bf16 => Precision::Bf16,
        };
        let config = HarvestConfig {
            tokens: self.tokens,
            precision,
            shard_tokens: self.shard_tokens,
            ..self.reading.config(&self.model, self.seed)?
        };
        match harvest(&config, &self.out, (self.resume, self.overwrite), context.verbosity, &context.interrupt)? {
            Harvested::Finished(source) => {
                let manifest = &source.manifest;
                context.result(
                    &described(&source),
                    &json!({"activations": self.out, "train_tokens": manifest.train_tokens(), "test_tokens": manifest.test_tokens(), "left_out_tokens": manifest.left_out.tokens}),
                );
                Ok(ExitCode::SUCCESS)
            }
            Harvested::Interrupted { tokens } => {
                context.result(
                    &format!("interrupted with {tokens} tokens in shards; add --resume to go on"),
                    &json!({"activations": self.out, "interrupted": tokens}),
                );
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    }
}
