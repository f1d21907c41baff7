//! What a recipe for a small transformer says: its sizes, its text, and how it is trained.

use std::path::{Path, PathBuf};

use sememe::schedule::LearningRate;
use sememe::train::AdamConfig;
use sememe_lm::Description;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::config::{self, Checked, ConfigError, OutputConfig};

/// Sizes of a transformer of the form of Llama: RMS norm, rotary positions, gated SiLU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformerConfig {
    /// Entries of the vocabulary, the 256 bytes and the end of text included.
    pub vocabulary: usize,
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Query heads, which divide the width.
    pub heads: usize,
    /// Key and value heads, which divide the heads.
    pub kv_heads: usize,
    /// Width of the MLP's hidden layer.
    pub mlp_width: usize,
    /// Tokens that the model sees at once, in training and afterwards.
    pub context: usize,
    /// θ of the rotation.
    pub rope_theta: f64,
    /// Whether logits are read off with the embeddings.
    pub is_tied: bool,
    /// Standard deviation of fresh weights.
    pub initial_std: f64,
}

impl Default for TransformerConfig {
    fn default() -> Self {
        Self {
            vocabulary: 2048,
            layers: 4,
            width: 128,
            heads: 4,
            kv_heads: 4,
            mlp_width: 384,
            context: 256,
            rope_theta: 10_000.0,
            is_tied: true,
            initial_std: 0.02,
        }
    }
}

impl TransformerConfig {
    /// The description, with the id of the end of text for programs that generate.
    ///
    /// # Errors
    /// Sizes that no transformer has.
    pub fn describe(&self, end_of_text: u32) -> Result<Description, sememe_lm::LmError> {
        let json = json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": self.vocabulary,
            "num_hidden_layers": self.layers,
            "hidden_size": self.width,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.width / self.heads,
            "intermediate_size": self.mlp_width,
            "max_position_embeddings": self.context,
            "rope_theta": self.rope_theta,
            "rms_norm_eps": 1e-5,
            "hidden_act": "silu",
            "attention_bias": false,
            "mlp_bias": false,
            "tie_word_embeddings": self.is_tied,
            "initializer_range": self.initial_std,
            "bos_token_id": end_of_text,
            "eos_token_id": end_of_text,
        });
        Description::from_json(&json.to_string(), Path::new("[transformer]"))
    }
}

/// What the model reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextConfig {
    /// Files and folders of text (.txt, .jsonl, .jsonl.gz, .parquet).
    pub files: Vec<PathBuf>,
    /// The key or column that holds the text; `text` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Files and folders of text to evaluate on; wherever it occurs in `files`, it is cut out of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_out_files: Vec<PathBuf>,
    /// Fraction of the documents of `files` to evaluate on, chosen by the seed; instead of `held_out_files`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out_fraction: Option<f64>,
}

/// How long and how fast to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainingConfig {
    /// Optimiser steps.
    pub steps: usize,
    /// Rows of `transformer.context` tokens a step.
    pub batch: usize,
    /// The learning rate over the steps.
    pub learning_rate: LearningRate,
    /// Settings of Adam.
    pub adam: AdamConfig,
}

impl Default for TrainingConfig {
    fn default() -> Self {
        Self {
            steps: 2000,
            batch: 16,
            learning_rate: LearningRate { peak: 3e-3, decay_fraction: 0.8, ..LearningRate::default() },
            adam: AdamConfig { beta2: 0.99, clip_norm: 1.0, ..AdamConfig::default() },
        }
    }
}

/// Everything that determines a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// One line for reports and listings.
    #[serde(default)]
    pub about: String,
    /// Seed of initialisation, order of the text, and samples.
    #[serde(default)]
    pub seed: u64,
    /// The model.
    pub transformer: TransformerConfig,
    /// The text.
    pub text: TextConfig,
    /// Steps, batch and optimiser.
    #[serde(default)]
    pub training: TrainingConfig,
    /// How often a run reports and saves.
    #[serde(default)]
    pub output: OutputConfig,
}

impl Config {
    /// The config of a TOML text with overrides `key.path=value`.
    ///
    /// # Errors
    /// Unknown keys, and values that make no sense.
    pub fn parse(text: &str, origin: &str, overrides: &[String]) -> Result<Self, ConfigError> {
        config::parse(text, origin, overrides)
    }

    /// The resolved config as TOML, defaults filled in.
    ///
    /// # Errors
    /// A value that TOML cannot hold.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        config::to_toml(self)
    }
}

/// The end of text and the 256 bytes.
const LEAST_VOCABULARY: usize = 257;

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        let Self { transformer, text, training, output, .. } = self;
        if text.files.is_empty() {
            return Err("text: give `files`, a list of files or folders of text".into());
        }
        match (text.held_out_files.is_empty(), text.held_out_fraction) {
            (true, None) => return Err("text: give `held_out_files` or `held_out_fraction`, for the evaluation".into()),
            (false, Some(_)) => return Err("text: `held_out_files` and `held_out_fraction` exclude each other; give one".into()),
            (true, Some(fraction)) if !(fraction > 0.0 && fraction < 1.0) => {
                return Err(format!("`text.held_out_fraction` is {fraction}; give a fraction above 0 and below 1"));
            }
            _ => {}
        }
        for (key, value, least) in [
            ("transformer.vocabulary", transformer.vocabulary, LEAST_VOCABULARY),
            ("transformer.layers", transformer.layers, 1),
            ("transformer.width", transformer.width, 2),
            ("transformer.heads", transformer.heads, 1),
            ("transformer.kv_heads", transformer.kv_heads, 1),
            ("transformer.mlp_width", transformer.mlp_width, 1),
            ("transformer.context", transformer.context, 2),
            ("training.steps", training.steps, 1),
            ("training.batch", training.batch, 1),
            ("output.log_every", output.log_every, 1),
            ("output.checkpoint_every", output.checkpoint_every, 1),
        ] {
            if value < least {
                return Err(format!("`{key}` is {value}; give at least {least}"));
            }
        }
        if !transformer.width.is_multiple_of(2 * transformer.heads) {
            return Err(format!(
                "`transformer.width` is {}, which {} heads cannot share in even parts; give a multiple of {}",
                transformer.width,
                transformer.heads,
                2 * transformer.heads
            ));
        }
        if !(transformer.initial_std.is_finite() && transformer.initial_std > 0.0) {
            return Err(format!("`transformer.initial_std` is {}; give a finite number above 0", transformer.initial_std));
        }
        transformer.describe(0).map_err(|error| error.to_string())?;
        training.learning_rate.check().map_err(|error| format!("training: {error}"))?;
        training.adam.check().map_err(|(key, got, expected)| format!("`training.adam.{key}` is {got}; {expected}"))
    }
}
