//! A trained dictionary on disk: weights for unscaled activations, and what they are weights of.
//!
//! `dictionary.safetensors` holds `w_enc [n, d_in]`, `b_enc [n]`, `w_dec [n,
//! d_out]`, `b_dec [d_out]` and whatever else the kind has, with the scale of
//! training folded in; `dictionary.json` the kind's settings, the hooks, the
//! model and its fingerprint. Both are written whole or not at all.

use std::path::Path;

use burn::tensor::Device;
use sememe::dictionary::{Dictionary, DictionaryKind, Widths};
use sememe::train::{parameters, replace_parameters};
use serde::{Deserialize, Serialize};

use crate::atomic;
use crate::checkpoint::{decode_tensors, encode_tensors};
use crate::error::RunError;
use crate::folder::FolderError;

/// `dictionary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// The kind and its settings.
    pub dictionary: DictionaryKind,
    /// Widths of input and output.
    pub widths: (usize, usize),
    /// The threshold that replaces the choice over a batch after training, where the kind has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The language model as it was given.
    pub model: String,
    /// What tells its weights from those of another.
    pub fingerprint: String,
    /// The hooks that the encoder reads.
    pub hooks: Vec<String>,
    /// The hook that is reconstructed, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

const WEIGHTS: &str = "dictionary.safetensors";
const ABOUT: &str = "dictionary.json";

/// Writes the dictionary into a folder.
pub(crate) fn write_dictionary(folder: &Path, dictionary: &Dictionary, mut about: Saved) -> Result<(), RunError> {
    about.threshold = dictionary.memory.threshold();
    let weights = encode_tensors(&parameters(dictionary))?;
    let json = serde_json::to_vec_pretty(&about).map_err(|error| RunError::Data(error.to_string()))?;
    for (name, bytes) in [(WEIGHTS, &weights), (ABOUT, &json)] {
        let path = folder.join(name);
        atomic::write(&path, bytes).map_err(|source| FolderError::Io { path, source })?;
    }
    Ok(())
}

/// Whether a folder holds a dictionary of ours.
pub(crate) fn is_dictionary(folder: &Path) -> bool {
    folder.join(ABOUT).is_file()
}

/// The trained dictionary in a folder, for unscaled activations.
///
/// # Errors
/// Files that are missing, damaged, or do not belong together.
pub fn read_dictionary(folder: &Path, device: &Device) -> Result<(Dictionary, Saved), RunError> {
    let (about, weights) = (folder.join(ABOUT), folder.join(WEIGHTS));
    if !about.is_file() {
        return Err(RunError::Data(format!(
            "{}: no trained dictionary (there is no {ABOUT}); finish its training first",
            folder.display()
        )));
    }
    let read = |path: &Path| std::fs::read(path).map_err(|source| FolderError::Io { path: path.into(), source });
    let damaged = |path: &Path, what: String| RunError::Data(format!("{}: {what}; the file is damaged", path.display()));
    let saved: Saved = serde_json::from_slice(&read(&about)?).map_err(|error| damaged(&about, error.to_string()))?;
    let (input, output) = saved.widths;
    let mut dictionary = Dictionary::new(saved.dictionary.clone(), Widths { input, output }, 0, device)
        .map_err(|error| damaged(&about, error.to_string()))?;
    let tensors = decode_tensors(&read(&weights)?, &weights.display().to_string(), device)?;
    dictionary = replace_parameters(dictionary, tensors).map_err(|what| damaged(&weights, what))?;
    if let Some(threshold) = saved.threshold {
        dictionary.memory.set_threshold(threshold);
    }
    Ok((dictionary, saved))
}
