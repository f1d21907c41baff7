//! The config of a run: what a recipe file says, checked once before anything starts.
//!
//! A config is TOML. Unknown keys are errors that suggest the nearest known
//! one; `--set a.b=value` overrides single keys. The resolved config, with all
//! defaults filled in, is written into the run's folder.

use std::path::{Path, PathBuf};

use sememe::generative::ModelKind;
use sememe::train::{Plan, Term};
use sememe_truth::metric::MetricKind;
use sememe_truth::world::WorldKind;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a config was refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: cannot read the config ({source}); give the path of a TOML file or the name of a recipe (`sememe list recipes`)")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML, or a key that does not exist, or a value of another type.
    #[error("{origin}: {message}")]
    Parse {
        /// File or `--set`.
        origin: String,
        /// What and where.
        message: String,
    },
    /// `--set` without `=`, or through a key that holds no table.
    #[error("--set {assignment}: {message}")]
    Set {
        /// As given.
        assignment: String,
        /// What is wrong.
        message: String,
    },
    /// A value that makes no sense.
    #[error("{origin}: {message}")]
    Value {
        /// File or recipe.
        origin: String,
        /// What, where and what to do.
        message: String,
    },
}

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

/// How often a run reports and saves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputConfig {
    /// A line in `metrics.jsonl` every so many steps.
    pub log_every: usize,
    /// A checkpoint every so many steps (and at the end, and on Ctrl-C).
    pub checkpoint_every: usize,
}

impl Default for OutputConfig {
    fn default() -> Self {
        Self { log_every: 50, checkpoint_every: 1000 }
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
        let parse = |message: String| ConfigError::Parse { origin: origin.into(), message };
        let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| parse(one_line(&error.to_string())))?;
        for assignment in overrides {
            set(&mut table, assignment)?;
        }
        let config: Self = table.try_into().map_err(|error: toml::de::Error| parse(suggest(&one_line(&error.to_string()))))?;
        config.check().map_err(|message| ConfigError::Value { origin: origin.into(), message })?;
        Ok(config)
    }

    /// The config in a file.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
        Self::parse(&text, &path.display().to_string(), overrides)
    }

    /// The resolved config as TOML, defaults filled in.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        toml::to_string(self).map_err(|error| ConfigError::Value { origin: "config".into(), message: error.to_string() })
    }

    /// The seed of the data.
    pub fn data_seed(&self) -> u64 {
        self.data.seed.unwrap_or(self.seed)
    }

    /// Everything that can be refused before data and model are there.
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

    /// What can be refused once the number of observed variables is known.
    pub fn check_penalties(&self, dx: usize) -> Result<(), ConfigError> {
        for term in &self.penalty {
            term.check(self.model.member().latent_count(), dx)
                .map_err(|error| ConfigError::Value { origin: "config".into(), message: error.to_string() })?;
        }
        Ok(())
    }
}

/// Sets `a.b.0.c=value` in the table; the value is TOML, or a bare word as a string.
fn set(table: &mut toml::Table, assignment: &str) -> Result<(), ConfigError> {
    let error = |message: &str| ConfigError::Set { assignment: assignment.into(), message: message.into() };
    let (path, value) = assignment.split_once('=').ok_or_else(|| error("write key=value, for example model.dz=8"))?;
    let value = format!("value = {value}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_string()));
    let keys: Vec<&str> = path.split('.').collect();
    let Some((last, parents)) = keys.split_last().filter(|_| keys.iter().all(|key| !key.is_empty())) else {
        return Err(error("the key is empty"));
    };
    let mut at = table;
    let mut parents = parents.iter().peekable();
    while let Some(&key) = parents.next() {
        let entry = at.entry(key.to_string()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        let entry = match (entry, parents.peek().and_then(|index| index.parse::<usize>().ok())) {
            (toml::Value::Array(items), Some(index)) => {
                parents.next();
                let length = items.len();
                items.get_mut(index).ok_or_else(|| error(&format!("`{key}` has {length} entries, counted from 0")))?
            }
            (entry, _) => entry,
        };
        at = entry.as_table_mut().ok_or_else(|| error(&format!("`{key}` holds no table of keys")))?;
    }
    at.insert((*last).to_string(), value);
    Ok(())
}

/// The parser's message on one line, with the place kept.
fn one_line(message: &str) -> String {
    message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && *line != "|" && !line.chars().all(|c| "^|- ".contains(c)))
        .collect::<Vec<_>>()
        .join(": ")
}

/// Adds the nearest known name to "unknown field `x`, expected one of `a`, `b`".
pub fn suggest(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (Some(rest), true) = (quoted.split_first(), message.contains("unknown field") || message.contains("unknown variant")) else {
        return message.to_string();
    };
    let (wrong, known) = rest;
    let nearest = known.iter().min_by_key(|name| strsim::damerau_levenshtein(wrong, name));
    match nearest {
        Some(name) if strsim::damerau_levenshtein(wrong, name) <= wrong.len().max(3) / 2 => format!("{message}; did you mean `{name}`?"),
        _ => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_get_the_nearest() {
        let message = suggest("unknown field `wieght`, expected one of `weight`, `ramp`");
        assert!(message.ends_with("did you mean `weight`?"), "{message}");
        assert_eq!(suggest("invalid type"), "invalid type");
    }

    #[test]
    fn overrides_reach_tables_and_arrays() {
        let mut table: toml::Table = "seed = 1\n[[penalty]]\nweight = 1.0".parse().unwrap_or_default();
        for assignment in ["seed=7", "model.name=vae", "penalty.0.weight=0.5"] {
            assert!(set(&mut table, assignment).is_ok());
        }
        let expected = "seed = 7\n[[penalty]]\nweight = 0.5\n[model]\nname = \"vae\"".parse().unwrap_or_default();
        assert_eq!(table, expected);
        for bad in ["seed", "=1", "seed.x=1", "penalty.3.weight=1"] {
            assert!(set(&mut table, bad).is_err(), "{bad}");
        }
    }
}
