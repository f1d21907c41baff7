//! The config of a harvest: which model, text and hooks, what is left out, and how it is stored.

use std::path::PathBuf;

use sememe_lm::Hook;
use serde::{Deserialize, Serialize};

use super::ActivationsError;
use super::shard::Precision;

/// What is harvested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HarvestConfig {
    /// A Hugging Face folder, a GGUF file, or `hf:org/name`.
    pub model: String,
    /// Files and folders of text (.txt, .jsonl, .parquet).
    pub text: Vec<PathBuf>,
    /// The key or column that holds the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_key: Option<String>,
    /// Places of the model, `12.resid_post`.
    pub hooks: Vec<String>,
    /// Tokens to train on; 0 for all that the text has.
    pub tokens: usize,
    /// Tokens of the longest context.
    pub context_tokens: usize,
    /// Contexts in a forward pass.
    pub batch_contexts: usize,
    /// How numbers are stored.
    pub precision: Precision,
    /// The shuffle buffer, in MiB.
    pub buffer_mib: usize,
    /// Tokens in a shard at most.
    pub shard_tokens: usize,
    /// Share of the text that is held out for evaluation.
    pub test_fraction: f64,
    /// Held-out tokens at most; 0 for no limit.
    pub test_tokens: usize,
    /// Keep the first token of each context.
    pub keep_first: bool,
    /// Keep special tokens.
    pub keep_special: bool,
    /// Seed of order and held-out text.
    pub seed: u64,
}

impl Default for HarvestConfig {
    fn default() -> Self {
        Self {
            model: String::new(),
            text: Vec::new(),
            text_key: None,
            hooks: Vec::new(),
            tokens: 0,
            context_tokens: 256,
            batch_contexts: 8,
            precision: Precision::default(),
            buffer_mib: 1024,
            shard_tokens: 65_536,
            test_fraction: 0.05,
            test_tokens: 0,
            keep_first: false,
            keep_special: false,
            seed: 0,
        }
    }
}

impl HarvestConfig {
    /// Refuses settings that make no sense, and reads the hooks.
    ///
    /// # Errors
    /// The first key at fault.
    pub fn check(&self) -> Result<Vec<Hook>, ActivationsError> {
        let error = |key, got: String, expected: &str| Err(ActivationsError::Setting { key, got, expected: expected.into() });
        if self.model.is_empty() {
            return error("model", "empty".into(), "give a folder, a .gguf file or hf:org/name");
        }
        if self.text.is_empty() {
            return error("text", "empty".into(), "give files or folders of text (--text)");
        }
        if self.hooks.is_empty() {
            return error("hooks", "empty".into(), "give at least one, such as 12.resid_post (--layer 12 --hook resid_post)");
        }
        for (key, value, least) in [
            ("context_tokens", self.context_tokens, 2),
            ("batch_contexts", self.batch_contexts, 1),
            ("buffer_mib", self.buffer_mib, 1),
            ("shard_tokens", self.shard_tokens, 1),
        ] {
            if value < least {
                return error(key, value.to_string(), &format!("give at least {least}"));
            }
        }
        if !(0.0..1.0).contains(&self.test_fraction) {
            return error("test_fraction", self.test_fraction.to_string(), "give a fraction from 0 to below 1");
        }
        let mut hooks = Vec::new();
        for name in &self.hooks {
            match name.parse::<Hook>() {
                Ok(hook) if hooks.contains(&hook) => return error("hooks", name.clone(), "it is given twice"),
                Ok(hook) => hooks.push(hook),
                Err(message) => return error("hooks", name.clone(), &message),
            }
        }
        Ok(hooks)
    }
}
