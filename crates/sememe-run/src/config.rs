//! Configs: TOML that is checked once, before anything starts.
//!
//! Unknown keys are errors that suggest the nearest known one; `--set
//! a.b=value` overrides single keys. The resolved config, with all defaults
//! filled in, is written into the run's folder.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
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

/// A config that can refuse what makes no sense.
pub trait Checked {
    /// Everything that can be refused before data and model are there.
    ///
    /// # Errors
    /// The first key that makes no sense, with what it may be.
    fn check(&self) -> Result<(), String>;
}

/// The config of a TOML text with overrides `key.path=value`.
///
/// # Errors
/// What does not parse, or what [`Checked::check`] refuses.
pub fn parse<C: DeserializeOwned + Checked>(text: &str, origin: &str, overrides: &[String]) -> Result<C, ConfigError> {
    from_table(table(text, origin)?, origin, overrides)
}

/// The TOML text as a table of keys.
///
/// # Errors
/// A text that is no TOML.
pub fn table(text: &str, origin: &str) -> Result<toml::Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| ConfigError::Parse { origin: origin.into(), message: one_line(&error.to_string()) })
}

/// The config that a table holds, with overrides.
///
/// # Errors
/// Those of [`parse`].
pub fn from_table<C: DeserializeOwned + Checked>(mut table: toml::Table, origin: &str, overrides: &[String]) -> Result<C, ConfigError> {
    for assignment in overrides {
        set(&mut table, assignment)?;
    }
    let parse = |message: String| ConfigError::Parse { origin: origin.into(), message };
    let config: C = table.try_into().map_err(|error: toml::de::Error| parse(suggest(&one_line(&error.to_string()))))?;
    config.check().map_err(|message| ConfigError::Value { origin: origin.into(), message })?;
    Ok(config)
}

/// The config in a file.
///
/// # Errors
/// A file that cannot be read, and those of [`parse`].
pub fn read<C: DeserializeOwned + Checked>(path: &Path, overrides: &[String]) -> Result<C, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
    parse(&text, &path.display().to_string(), overrides)
}

/// The resolved config as TOML, defaults filled in.
///
/// # Errors
/// A value that TOML cannot hold.
pub fn to_toml<C: Serialize>(config: &C) -> Result<String, ConfigError> {
    toml::to_string(config).map_err(|error| ConfigError::Value { origin: "config".into(), message: error.to_string() })
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
