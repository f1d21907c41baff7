//! The config of a pair's run: activations at two hooks, the pair, training, evaluation.

use sememe::dictionary::{DictionaryKind, DictionaryPlan};
use sememe::pair::PairConfig;
use serde::{Deserialize, Serialize};

use crate::config::{self, Checked, ConfigError, OutputConfig};
use crate::dictionary::{self, DataConfig, EvaluationConfig};

/// What is computed of the Jacobian after training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JacobianEvaluationConfig {
    /// Held-out tokens whose blocks are counted, spread over all that there are.
    pub tokens: usize,
    /// Of these, tokens at which every active latent is ablated.
    pub ablation_tokens: usize,
    /// Functions between single latents that are swept.
    pub curves: usize,
    /// Edges of the graph in the report.
    pub edges: usize,
}

impl Default for JacobianEvaluationConfig {
    fn default() -> Self {
        Self { tokens: 4096, ablation_tokens: 128, curves: 1000, edges: 60 }
    }
}

/// Everything that determines a pair's run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// One line for reports and listings.
    #[serde(default)]
    pub about: String,
    /// Seed of the initial weights, of the order of batches and of what is sampled.
    #[serde(default)]
    pub seed: u64,
    /// The activations: `hooks` names what enters the layer, `target` what leaves it.
    #[serde(default)]
    pub data: DataConfig,
    /// The dictionaries and the penalty between them.
    pub pair: PairConfig,
    /// Steps, batch and optimiser.
    #[serde(default)]
    pub training: DictionaryPlan,
    /// What is computed of each dictionary after training.
    #[serde(default)]
    pub evaluation: EvaluationConfig,
    /// What is computed of the Jacobian.
    #[serde(default)]
    pub jacobian_evaluation: JacobianEvaluationConfig,
    /// How often a run reports and saves.
    #[serde(default)]
    pub output: OutputConfig,
}

/// One of the two dictionaries of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Input,
    Output,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::Input, Self::Output];

    /// Its folder, and its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

impl Config {
    /// The resolved config as TOML, defaults filled in.
    ///
    /// # Errors
    /// A value that TOML cannot hold.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        config::to_toml(self)
    }

    /// One side as the config of a dictionary of that hook alone.
    pub(super) fn of_side(&self, side: Side, hook: &str) -> dictionary::Config {
        let dictionary: DictionaryKind = match side {
            Side::Input => self.pair.input.clone(),
            Side::Output => self.pair.output().clone(),
        };
        dictionary::Config {
            about: String::new(),
            seed: self.seed,
            data: DataConfig { hooks: vec![hook.into()], target: None, ..self.data.clone() },
            dictionary,
            training: self.training.clone(),
            evaluation: self.evaluation.clone(),
            output: self.output.clone(),
        }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        self.of_side(Side::Input, "").check()?;
        if self.data.hooks.len() > 1 {
            return Err("data.hooks: give one hook, what enters the layer; data.target is what leaves it".into());
        }
        if self.data.hooks.is_empty() != self.data.target.is_none() {
            return Err("data: give both `hooks` (what enters the layer) and `target` (what leaves it), or neither".into());
        }
        if self.jacobian_evaluation.tokens == 0 {
            return Err("`jacobian_evaluation.tokens` is 0; give at least 1".into());
        }
        // Widths are known once the activations are open; any will do for the rest.
        self.pair.check(1, 1).map_err(|error| error.to_string())
    }
}
