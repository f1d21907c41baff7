//! The config of a generative model's run: data, model, penalties, training, evaluation.

use std::path::{Path, PathBuf};

use sememe::generative::ModelKind;
use sememe::train::{Plan, Term};
use sememe_truth::metric::MetricKind;
use sememe_truth::world::WorldKind;
use serde::{Deserialize, Serialize};

use crate::config::{self, Checked, ConfigError, OutputConfig};

/// Where the data comes from: a world of known truth, or arrays of the user's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// A world of known truth; not together with `file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub world: Option<WorldKind>,
    /// An array of observed variables, `[samples, …]` (.npy, .npz, .safetensors, .csv).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The array's name within an .npz or .safetensors file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// True latents of the same samples, where they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latents_file: Option<PathBuf>,
    /// The true 0/1 dependency structure, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub support_file: Option<PathBuf>,
    /// Samples to train on (a world makes as many; a file must have them).
    pub samples: usize,
    /// Samples held out, on which everything is evaluated.
    pub test_samples: usize,
    /// Seed of the data; the run's seed when absent, so that repeated runs can share data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Bring each observed variable to mean 0 and variance 1 (statistics of the training samples).
    pub standardise: bool,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            world: None,
            file: None,
            key: None,
            latents_file: None,
            support_file: None,
            samples: 10_000,
            test_samples: 5_000,
            seed: None,
            standardise: true,
        }
    }
}

/// What is computed after training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationConfig {
    /// Metrics by name, with their settings; those that need a truth that the data lacks are left out and named in the report.
    pub metrics: Vec<MetricKind>,
    /// Samples on which the mean |Jacobian| is taken.
    pub jacobian_samples: usize,
    /// An entry of the mean |Jacobian| counts as a dependency above this fraction of its row's largest.
    pub support_threshold: f64,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        Self { metrics: MetricKind::defaults(), jacobian_samples: 1000, support_threshold: 0.1 }
    }
}

/// Everything that determines a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// One line for reports and listings.
    #[serde(default)]
    pub about: String,
    /// Seed of initialisation, order, noise, and of the data where it has none of its own.
    #[serde(default)]
    pub seed: u64,
    /// The data.
    #[serde(default)]
    pub data: DataConfig,
    /// The model.
    pub model: ModelKind,
    /// Steps, batch and optimiser.
    #[serde(default)]
    pub training: Plan,
    /// Penalties, any number of them.
    #[serde(default)]
    pub penalty: Vec<Term>,
    /// What is computed after training.
    #[serde(default)]
    pub evaluation: EvaluationConfig,
    /// How often a run reports and saves.
    #[serde(default)]
    pub output: OutputConfig,
}

impl Config {
    /// The config of a TOML text with overrides `key.path=value`.
    pub fn parse(text: &str, origin: &str, overrides: &[String]) -> Result<Self, ConfigError> {
        config::parse(text, origin, overrides)
    }

    /// The config in a file.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, ConfigError> {
        config::read(path, overrides)
    }

    /// The resolved config as TOML, defaults filled in.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        config::to_toml(self)
    }

    /// The seed of the data.
    pub fn data_seed(&self) -> u64 {
        self.data.seed.unwrap_or(self.seed)
    }

    /// What can be refused once the number of observed variables is known.
    pub fn check_penalties(&self, dx: usize) -> Result<(), ConfigError> {
        for term in &self.penalty {
            term.check(self.model.member().latent_count(), dx)
                .map_err(|error| ConfigError::Value { origin: "config".into(), message: error.to_string() })?;
        }
        Ok(())
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        let data = &self.data;
        match (&data.world, &data.file) {
            (Some(_), Some(_)) => return Err("data: `world` and `file` exclude each other; give one".into()),
            (None, None) => return Err("data: give `world` (see `sememe list worlds`) or `file`".into()),
            (Some(world), None) => world.member().check().map_err(|error| format!("data.world: {error}"))?,
            (None, Some(_)) => {}
        }
        if data.world.is_some() && (data.latents_file.is_some() || data.support_file.is_some() || data.key.is_some()) {
            return Err("data: `key`, `latents_file` and `support_file` go with `file`; a world knows its own truth".into());
        }
        for (key, value, least) in [
            ("data.samples", data.samples, 2),
            ("data.test_samples", data.test_samples, 2),
            ("training.steps", self.training.steps, 1),
            ("training.batch", self.training.batch, 2),
            ("training.accumulate", self.training.accumulate, 1),
            ("evaluation.jacobian_samples", self.evaluation.jacobian_samples, 1),
            ("output.log_every", self.output.log_every, 1),
            ("output.checkpoint_every", self.output.checkpoint_every, 1),
        ] {
            if value < least {
                return Err(format!("`{key}` is {value}; give at least {least}"));
            }
        }
        if self.training.batch > data.samples {
            return Err(format!(
                "`training.batch` is {}, more than the {} samples; lower it or raise `data.samples`",
                self.training.batch, data.samples
            ));
        }
        if !(self.evaluation.support_threshold > 0.0 && self.evaluation.support_threshold < 1.0) {
            return Err(format!(
                "`evaluation.support_threshold` is {}; give a fraction above 0 and below 1",
                self.evaluation.support_threshold
            ));
        }
        self.model.member().check().map_err(|error| error.to_string())?;
        self.training.learning_rate.check().map_err(|error| format!("training: {error}"))?;
        if let Some(realign) = &self.training.realign {
            realign.check().map_err(|error| error.to_string())?;
        }
        if let Some(starts) = &self.training.starts {
            starts.check().map_err(|error| error.to_string())?;
        }
        self.training.adam.check().map_err(|(key, got, expected)| format!("`training.adam.{key}` is {got}; {expected}"))?;
        Ok(())
    }
}
