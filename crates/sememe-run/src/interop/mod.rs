//! Dictionaries in the formats of other tools: read into ours with the same reconstruction, and written back.
//!
//! Differences of convention are removed exactly on reading: biases that are
//! or are not taken off before the encoder, activations scaled by decoder
//! norms, matrices that lie the other way. What cannot be represented is an
//! error that says so; nothing is approximated.
//!
//! To add a format: its own file with `read` and `write`, and one line in [`Format`].

mod arrays;
mod convert;
mod dictionary_learning;
mod gemma_scope;
pub mod native;
mod pickle;
mod saelens;
mod sparsify;
mod torch_file;

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use sememe::dictionary::{Dictionary, DictionaryError, DictionaryKind};
use serde_json::{Map, Value};
use thiserror::Error;

pub use arrays::{Array, Arrays};
pub use convert::convert;

/// Why a dictionary could not be read or written: always with the file.
#[derive(Debug, Error)]
pub enum InteropError {
    /// It cannot be opened or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its content is not what the format says.
    #[error("{path}: {message}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What, where and what to do.
        message: String,
    },
    /// It asks for something that our dictionaries do not do, or the other way round.
    #[error("{path}: `{key}` is {got}; {expected}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The key of the config.
        key: &'static str,
        /// Its value.
        got: String,
        /// What is possible.
        expected: String,
    },
    /// Weights that do not fit together.
    #[error("{path}: {source}")]
    Dictionary {
        /// The file.
        path: PathBuf,
        /// What.
        source: DictionaryError,
    },
}

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A folder with `cfg.json` and `sae_weights.safetensors`.
    SaeLens,
    /// A folder with `ae.pt` and `config.json`.
    DictionaryLearning,
    /// A folder with `cfg.json` and `sae.safetensors`.
    Sparsify,
    /// `params.npz`, or the folder that holds it.
    GemmaScope,
    /// Our own: a folder with `dictionary.json` and `dictionary.safetensors`, such as that of a finished run.
    Sememe,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 5] = [Self::SaeLens, Self::DictionaryLearning, Self::Sparsify, Self::GemmaScope, Self::Sememe];

    /// The name by which commands know it.
    pub fn tag(self) -> &'static str {
        match self {
            Self::SaeLens => "saelens",
            Self::DictionaryLearning => "dictionary-learning",
            Self::Sparsify => "sparsify",
            Self::GemmaScope => "gemma-scope",
            Self::Sememe => "sememe",
        }
    }

    /// The format of this name.
    pub fn from_tag(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.tag() == tag)
    }

    /// The format of what lies at `path`, by the files that are there.
    pub fn of(path: &Path) -> Option<Self> {
        let has = |name: &str| path.join(name).is_file();
        if path.extension().is_some_and(|extension| extension == "npz") || has("params.npz") {
            Some(Self::GemmaScope)
        } else if has("sae_weights.safetensors") {
            Some(Self::SaeLens)
        } else if has("sae.safetensors") {
            Some(Self::Sparsify)
        } else if has("ae.pt") {
            Some(Self::DictionaryLearning)
        } else if has(native::ABOUT) {
            Some(Self::Sememe)
        } else {
            None
        }
    }
}

/// A dictionary that was read.
#[derive(Debug)]
pub struct Imported {
    /// With the reconstruction of the original.
    pub dictionary: Dictionary,
    /// Its format.
    pub format: Format,
    /// What the file says beside the map from x to x̂ (model, hook, …).
    pub metadata: Map<String, Value>,
}

/// Reads the dictionary at `path`, in `format` or in the one that the files there show.
///
/// # Errors
/// What is missing, damaged or cannot be represented, with the file.
pub fn import(path: &Path, format: Option<Format>, device: &Device) -> Result<Imported, InteropError> {
    let Some(format) = format.or_else(|| Format::of(path)) else {
        let known = "sae_weights.safetensors (saelens), sae.safetensors (sparsify), ae.pt (dictionary-learning), params.npz (gemma-scope), dictionary.json (sememe)";
        return Err(InteropError::Content {
            path: path.into(),
            message: format!("holds no dictionary of a known format; known are {known}"),
        });
    };
    let (dictionary, metadata) = match format {
        Format::SaeLens => saelens::read(path, device),
        Format::DictionaryLearning => dictionary_learning::read(path, device),
        Format::Sparsify => sparsify::read(path, device),
        Format::GemmaScope => gemma_scope::read(path, device),
        Format::Sememe => native::read(path, device),
    }?;
    Ok(Imported { dictionary, format, metadata })
}

/// Writes the dictionary to the folder `path` in `format`, with `metadata` where the format has a place for it.
///
/// # Errors
/// What the format cannot say, or what cannot be written.
pub fn export(dictionary: &Dictionary, format: Format, path: &Path, metadata: &Map<String, Value>) -> Result<(), InteropError> {
    // Other tools know a choice over a batch only as the threshold that it leaves.
    let dictionary = &if format == Format::Sememe { dictionary.clone() } else { dictionary.as_jumprelu() };
    match format {
        Format::SaeLens => saelens::write(dictionary, path, metadata),
        Format::DictionaryLearning => dictionary_learning::write(dictionary, path, metadata),
        Format::Sparsify => sparsify::write(dictionary, path, metadata),
        Format::GemmaScope => gemma_scope::write(dictionary, path),
        Format::Sememe => native::write(dictionary, path, metadata),
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, InteropError> {
    std::fs::read(path).map_err(|source| InteropError::Io { path: path.into(), source })
}

/// Writes the file, and the folder that holds it where there is none yet.
fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), InteropError> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder.and_then(|()| crate::atomic::write(path, bytes)).map_err(|source| InteropError::Io { path: path.into(), source })
}

/// The JSON object in `path`.
fn read_json(path: &Path) -> Result<Map<String, Value>, InteropError> {
    let content = |message: String| InteropError::Content { path: path.into(), message };
    match serde_json::from_slice(&read_bytes(path)?) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(content("is no JSON object".into())),
        Err(error) => Err(content(format!("is not JSON, or damaged ({error})"))),
    }
}

fn write_json(path: &Path, value: &Value) -> Result<(), InteropError> {
    let bytes =
        serde_json::to_vec_pretty(value).map_err(|error| InteropError::Content { path: path.into(), message: error.to_string() })?;
    write_bytes(path, &bytes)
}

/// `config` without `keys`.
fn without(config: &Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    config.iter().filter(|(key, _)| !keys.contains(&key.as_str())).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A config that a format has no place for.
fn cannot_write(dictionary: &Dictionary, path: &Path, format: Format, possible: &str) -> InteropError {
    let tag = dictionary.kind.tag();
    let got = match &dictionary.kind {
        DictionaryKind::Transcoder(transcoder) => format!("`{tag}` of `{}`", transcoder.base.tag()),
        DictionaryKind::Crosscoder(crosscoder) => format!("`{tag}` of `{}`", crosscoder.base.tag()),
        _ => format!("`{tag}`"),
    };
    InteropError::Unsupported { path: path.into(), key: "name", got, expected: format!("{} can hold {possible}", format.tag()) }
}

#[cfg(test)]
mod tests;
