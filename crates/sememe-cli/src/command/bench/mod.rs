//! `sememe bench WHAT`: times on this machine as ratios, all sides in turns in one run, other tools' included where they are there.

mod dictionary;
mod forward;
mod jacobian;
mod job;
mod pair;
mod scale;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use serde_json::Value;

use super::Context;

/// Arguments of `bench`.
#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

/// What is timed.
#[derive(Subcommand)]
enum What {
    /// The exact Jacobian penalty, alone and within a training step.
    Jacobian(jacobian::Jacobian),
    /// A training step of sparse dictionaries against its encoder product, and against PyTorch (--python).
    Dictionary(dictionary::Step),
    /// A language model's forward pass up to a layer and whole, against transformers (--python).
    Forward(forward::Forward),
    /// What a token costs, and how much memory training takes, as the number of latents grows.
    Scale(scale::Scale),
    /// A training step of a pair around an MLP, without and with the Jacobian penalty, and against PyTorch (--python).
    Pair(pair::PairStep),
    /// A whole job, from shards to metrics, against the bare training steps.
    Job(job::Job),
}

impl Bench {
    /// Times and prints.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        match &self.what {
            What::Jacobian(bench) => bench.run(context),
            What::Dictionary(bench) => bench.run(context),
            What::Forward(bench) => bench.run(context),
            What::Scale(bench) => bench.run(context),
            What::Pair(bench) => bench.run(context),
            What::Job(bench) => bench.run(context),
        }
    }
}

/// Median, in milliseconds.
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    1e3 * seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Another tool that is timed beside ours.
#[derive(Args)]
struct Peer {
    /// A Python that has the other tool, to time it in turns with ours.
    #[arg(long)]
    python: Option<PathBuf>,
    /// Folder of the scripts that time other tools.
    #[arg(long, default_value = "benches/peers")]
    peers: PathBuf,
}

impl Peer {
    /// The JSON lines of a script, or none when no Python was given.
    fn lines(&self, script: &str, arguments: &[String]) -> Result<Vec<Value>> {
        let Some(python) = &self.python else { return Ok(Vec::new()) };
        let file: &Path = &self.peers.join(script);
        if !file.is_file() {
            bail!("{}: no such script; run in the repository, or give --peers", file.display());
        }
        // These two slow down or speed up a linear-algebra library on purpose.
        let output = Command::new(python).arg(file).args(arguments).env_remove("OPENBLAS_CORETYPE").env_remove("OPENBLAS_L2_SIZE").output();
        let output = output.with_context(|| format!("{}: cannot be started", python.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}", file.display(), said.lines().last().unwrap_or("it failed and said nothing"));
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

/// Times under names, in the order in which they first came.
#[derive(Default)]
struct Times(Vec<(String, Vec<f64>)>);

impl Times {
    fn add(&mut self, name: &str, seconds: impl IntoIterator<Item = f64>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, all)) => all.extend(seconds),
            None => self.0.push((name.into(), seconds.into_iter().collect())),
        }
    }

    fn medians(&self) -> Vec<(&str, f64)> {
        self.0.iter().map(|(name, seconds)| (name.as_str(), median(seconds.clone()))).collect()
    }

    fn of(&self, name: &str) -> Option<f64> {
        self.medians().into_iter().find(|(known, _)| *known == name).map(|(_, median)| median)
    }

    fn ratio(&self, above: &str, below: &str) -> Option<f64> {
        Some(self.of(above)? / self.of(below)?)
    }
}
