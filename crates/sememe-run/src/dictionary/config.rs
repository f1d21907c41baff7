//! The config of a dictionary's run: activations, dictionary, training, evaluation.

use std::path::PathBuf;

use sememe::dictionary::{DictionaryKind, DictionaryPlan};
use serde::{Deserialize, Serialize};

use crate::activations::HarvestConfig;
use crate::config::{self, Checked, ConfigError, OutputConfig};

/// Where activations come from: a folder of shards, or a model that runs while the dictionary trains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// A folder that `sememe harvest` wrote; not together with `live`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activations: Option<PathBuf>,
    /// Which of its hooks the encoder reads; several for a crosscoder. The only one when absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<String>,
    /// The hook that a transcoder reconstructs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Multiply activations such that their mean norm is √d, and fold the factor into the weights afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaled: Option<bool>,
    /// Harvest while training, without shards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<HarvestConfig>,
}

/// What is computed after training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationConfig {
    /// Held-out tokens on which reconstruction is scored, at most.
    pub tokens: usize,
    /// The language model for cross-entropy and for the text of tokens; the one of the activations when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Held-out contexts on which the language model is run with the dictionary in place; 0 for none.
    pub contexts: usize,
    /// Latents that the report shows: so many of the strongest, and so many at random.
    pub latents: usize,
    /// Contexts that are shown for each.
    pub contexts_per_latent: usize,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        Self { tokens: 200_000, model: None, contexts: 32, latents: 12, contexts_per_latent: 6 }
    }
}

/// Everything that determines a dictionary's run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// One line for reports and listings.
    #[serde(default)]
    pub about: String,
    /// Seed of the initial weights and of the order of batches.
    #[serde(default)]
    pub seed: u64,
    /// The activations.
    #[serde(default)]
    pub data: DataConfig,
    /// The dictionary.
    pub dictionary: DictionaryKind,
    /// Steps, batch and optimiser.
    #[serde(default)]
    pub training: DictionaryPlan,
    /// What is computed after training.
    #[serde(default)]
    pub evaluation: EvaluationConfig,
    /// How often a run reports and saves.
    #[serde(default)]
    pub output: OutputConfig,
}

impl Config {
    /// The resolved config as TOML, defaults filled in.
    ///
    /// # Errors
    /// A value that TOML cannot hold.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        config::to_toml(self)
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        match (&self.data.activations, &self.data.live) {
            (Some(_), Some(_)) => return Err("data: `activations` and `live` exclude each other; give one".into()),
            (None, None) => {
                return Err(
                    "data: give the folder of activations that `sememe harvest` wrote (--data DIR), or `live` (--model MODEL --text FILES)"
                        .into(),
                );
            }
            (None, Some(live)) => live.check().map(|_| ()).map_err(|error| format!("data.live: {error}"))?,
            (Some(_), None) => {}
        }
        self.training.check().map_err(|error| error.to_string())?;
        for (key, value) in [
            ("evaluation.tokens", self.evaluation.tokens),
            ("output.log_every", self.output.log_every),
            ("output.checkpoint_every", self.output.checkpoint_every),
        ] {
            if value == 0 {
                return Err(format!("`{key}` is 0; give at least 1"));
            }
        }
        Ok(())
    }
}
