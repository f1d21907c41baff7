//! Our own files: weights for unscaled activations, and what they are weights of.
//!
//! `dictionary.safetensors` holds `w_enc [n, d_in]`, `b_enc [n]`, `w_dec [n,
//! d_out]`, `b_dec [d_out]` and whatever else the kind has, with the scale of
//! training folded in; `dictionary.json` the kind's settings, the hooks, the
//! model and its fingerprint. A finished run's folder is such a dictionary.

use std::path::Path;

use burn::tensor::Device;
use sememe::dictionary::{Dictionary, DictionaryKind, Widths};
use sememe::train::{parameters, replace_parameters};
use sememe_lm::{Hook, Place};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{InteropError, read_bytes, write_bytes, write_json};
use crate::checkpoint::{decode_tensors, encode_tensors};

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
pub(super) const ABOUT: &str = "dictionary.json";

/// Writes the dictionary into a folder.
pub(crate) fn save(folder: &Path, dictionary: &Dictionary, mut about: Saved) -> Result<(), InteropError> {
    about.threshold = dictionary.memory.threshold();
    let path = folder.join(WEIGHTS);
    let weights = encode_tensors(&parameters(dictionary))
        .map_err(|error| InteropError::Content { path: path.clone(), message: error.to_string() })?;
    write_bytes(&path, &weights)?;
    write_json(&folder.join(ABOUT), &json!(about))
}

/// The trained dictionary in a folder, for unscaled activations, and what it is one of.
///
/// # Errors
/// Files that are missing, damaged, or do not belong together.
pub fn open(folder: &Path, device: &Device) -> Result<(Dictionary, Saved), InteropError> {
    let (about, weights) = (folder.join(ABOUT), folder.join(WEIGHTS));
    if !about.is_file() {
        let message = format!("no trained dictionary (there is no {ABOUT}); finish its training first");
        return Err(InteropError::Content { path: folder.into(), message });
    }
    let damaged = |path: &Path, what: String| InteropError::Content { path: path.into(), message: format!("{what}; the file is damaged") };
    let saved: Saved = serde_json::from_slice(&read_bytes(&about)?).map_err(|error| damaged(&about, error.to_string()))?;
    let (input, output) = saved.widths;
    let dictionary = Dictionary::new(saved.dictionary.clone(), Widths { input, output }, 0, device);
    let mut dictionary = dictionary.map_err(|source| InteropError::Dictionary { path: about, source })?;
    let tensors = decode_tensors(&read_bytes(&weights)?, &weights.display().to_string(), device)
        .map_err(|error| InteropError::Content { path: weights.clone(), message: error.to_string() })?;
    dictionary = replace_parameters(dictionary, tensors).map_err(|what| damaged(&weights, what))?;
    if let Some(threshold) = saved.threshold {
        dictionary.memory.set_threshold(threshold);
    }
    Ok((dictionary, saved))
}

/// Reads the dictionary in a folder, with the names that other tools have for its model and hook.
pub(super) fn read(folder: &Path, device: &Device) -> Result<(Dictionary, Map<String, Value>), InteropError> {
    let (dictionary, saved) = open(folder, device)?;
    let mut metadata = Map::new();
    metadata.insert("model_name".into(), json!(saved.model));
    if let [hook] = &saved.hooks[..] {
        metadata.insert("hook_name".into(), json!(foreign_hook(hook)));
    }
    if let Some(target) = &saved.target {
        metadata.insert("hook_name_out".into(), json!(foreign_hook(target)));
    }
    Ok((dictionary, metadata))
}

/// Writes a dictionary that comes from elsewhere.
pub(super) fn write(dictionary: &Dictionary, folder: &Path, metadata: &Map<String, Value>) -> Result<(), InteropError> {
    let name = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
    let Widths { input, output } = dictionary.widths();
    let about = Saved {
        dictionary: dictionary.kind.clone(),
        widths: (input, output),
        threshold: None,
        model: name("model_name"),
        fingerprint: String::new(),
        hooks: vec![name("hook_name")],
        target: metadata.get("hook_name_out").and_then(Value::as_str).map(String::from),
    };
    save(folder, dictionary, about)
}

/// The name by which TransformerLens knows a hook; our own where it has none, as for the MLP's input: its
/// `ln2.hook_normalized` lies before the norm's weights.
fn foreign_hook(name: &str) -> String {
    let Ok(Hook { layer, place }) = name.parse::<Hook>() else { return name.into() };
    let theirs = match place {
        Place::ResidPre => "hook_resid_pre",
        Place::AttnOut => "hook_attn_out",
        Place::ResidMid => "hook_resid_mid",
        Place::MlpIn => return name.into(),
        Place::MlpHidden => "mlp.hook_post",
        Place::MlpOut => "hook_mlp_out",
        Place::ResidPost => "hook_resid_post",
    };
    format!("blocks.{layer}.{theirs}")
}
