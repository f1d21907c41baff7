//! SAELens folders: `cfg.json` (version 6, or the older flat keys) and `sae_weights.safetensors`.
//!
//! `W_enc [d_in, n]`, `W_dec [n, d_out]`, `b_enc`, `b_dec`; `threshold` (jumprelu), `b_gate`,
//! `b_mag`, `r_mag` (gated), `W_skip [d_out, d_in]` (skip transcoders); checkpoints of a
//! training batchtopk or matryoshka have `topk_threshold` in place of `threshold`. Conventions
//! that are removed on reading:
//!
//! - without `apply_b_dec_to_input` the encoder sees x itself, so `W_encᵀ b_dec` moves into the bias;
//! - with `rescale_acts_by_decoder_norm` u is chosen by `u ‖W_dec,i‖` and decoded by unit rows, so the
//!   norms move from the decoder into the encoder;
//! - `expected_average_only_in` says that the dictionary is one of `s x`. SAELens folds s into the weights and
//!   then says `none`; before that, a checkpoint keeps s beside the weights in `activation_scaler.json`, and it
//!   is folded here: `W_enc s`, `W_dec / s`, `b_dec / s`. Where no file says s, nothing is guessed;
//! - `hook_z` lays heads side by side, as our hooks do, so nothing is left to do.
//!
//! # Source
//! SAELens 6.54, sae_lens/saes/*.py, training/activation_scaler.py.

use std::path::Path;

use burn::tensor::Device;
use sememe::dictionary::{Dictionary, DictionaryKind, Gated, JumpRelu, RawWeights, Relu, TopK, Transcoder, Widths};
use serde_json::{Map, Value, json};

use super::arrays::{Array, read_safetensors, write_safetensors};
use super::{Format, InteropError, cannot_write, read_json, without, write_json};

/// Keys of a flat config that say what the weights and the kind say already.
const MAP_KEYS: &[&str] = &[
    "architecture",
    "activation_fn",
    "activation_fn_str",
    "activation_fn_kwargs",
    "activation_fn_kwargs_dict",
    "apply_b_dec_to_input",
    "d_in",
    "d_out",
    "d_sae",
    "device",
    "dtype",
    "finetuning_scaling_factor",
    "k",
    "normalize_activations",
    "rescale_acts_by_decoder_norm",
    "reshape_activations",
];

/// What the config says of the map.
struct Config<'a> {
    path: &'a Path,
    keys: &'a Map<String, Value>,
}

impl Config<'_> {
    fn text(&self, key: &str, default: &'static str) -> String {
        self.keys.get(key).and_then(Value::as_str).unwrap_or(default).to_string()
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.keys.get(key).and_then(Value::as_bool).unwrap_or(default)
    }

    fn unsupported(&self, key: &'static str, got: String, expected: &str) -> InteropError {
        InteropError::Unsupported { path: self.path.into(), key, got, expected: expected.into() }
    }

    /// The architecture, with the older way of saying TopK.
    fn architecture(&self) -> Result<String, InteropError> {
        let architecture = self.text("architecture", "standard");
        let activation = self.keys.get("activation_fn_str").or_else(|| self.keys.get("activation_fn")).and_then(Value::as_str);
        match (architecture.as_str(), activation) {
            ("standard" | "topk", Some("topk")) => Ok("topk".into()),
            (_, None | Some("relu")) => Ok(architecture),
            (_, Some("topk")) => Err(self.unsupported("activation_fn", "\"topk\"".into(), "only a standard architecture can have it")),
            (_, Some(other)) => Err(self.unsupported("activation_fn", format!("\"{other}\""), "known are relu and topk")),
        }
    }

    fn k(&self) -> Result<usize, InteropError> {
        let old =
            self.keys.get("activation_fn_kwargs").or_else(|| self.keys.get("activation_fn_kwargs_dict")).and_then(|keys| keys.get("k"));
        match self.keys.get("k").or(old).and_then(Value::as_f64) {
            Some(k) if k >= 1.0 => Ok(k.round() as usize),
            _ => Err(self.unsupported("k", "missing".into(), "a topk dictionary says how many latents are active")),
        }
    }

    /// Refuses what changes the shape of activations in a way that weights do not see.
    fn check_shape(&self) -> Result<(), InteropError> {
        let reshape = self.text("reshape_activations", "none");
        match reshape.as_str() {
            "none" | "hook_z" => Ok(()),
            other => Err(self.unsupported("reshape_activations", format!("\"{other}\""), "known are none and hook_z")),
        }
    }

    /// s by which activations must be multiplied before the dictionary sees them; `None` where they go in as they are.
    fn input_scale(&self, folder: &Path, is_transcoder: bool) -> Result<Option<f32>, InteropError> {
        let normalise = match self.keys.get("normalize_activations") {
            // Early versions wrote a truth value.
            Some(Value::Bool(false) | Value::Null) | None => "none".into(),
            Some(Value::Bool(true)) => "expected_average_only_in".into(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let refuse = |expected: &str| Err(self.unsupported("normalize_activations", format!("\"{normalise}\""), expected));
        match normalise.as_str() {
            "none" => Ok(None),
            "expected_average_only_in" if is_transcoder => refuse("the scale of a transcoder's output is not known; fold both first"),
            "expected_average_only_in" => {
                let beside = folder.join("activation_scaler.json");
                let scaler = if beside.is_file() { read_json(&beside)? } else { Map::new() };
                match scaler.get("scaling_factor").and_then(Value::as_f64) {
                    Some(scale) if scale.is_finite() && scale > 0.0 => Ok(Some(scale as f32)),
                    _ => refuse(
                        "the scale is not in activation_scaler.json; fold it into the weights with SAELens, or say \"none\" if that was done",
                    ),
                }
            }
            _ => refuse("only what can be folded into weights is read"),
        }
    }
}

/// The dictionary in the folder, and what its config says of model and hook.
pub(super) fn read(folder: &Path, device: &Device) -> Result<(Dictionary, Map<String, Value>), InteropError> {
    let (cfg_path, weights_path) = (folder.join("cfg.json"), folder.join("sae_weights.safetensors"));
    let keys = read_json(&cfg_path)?;
    let config = Config { path: &cfg_path, keys: &keys };
    config.check_shape()?;
    let architecture = config.architecture()?;
    let (base, is_transcoder, is_skip) = match architecture.as_str() {
        "standard" | "topk" | "jumprelu" | "gated" => (architecture.as_str(), false, false),
        "batchtopk" | "matryoshka_batchtopk" => ("batchtopk", false, false),
        "transcoder" => ("standard", true, false),
        "skip_transcoder" => ("standard", true, true),
        "jumprelu_transcoder" => ("jumprelu", true, false),
        "jumprelu_skip_transcoder" => ("jumprelu", true, true),
        other => {
            let known = "known are standard, topk, batchtopk, matryoshka_batchtopk, jumprelu, gated, transcoder, skip_transcoder, \
                         jumprelu_transcoder, jumprelu_skip_transcoder";
            return Err(config.unsupported("architecture", format!("\"{other}\""), known));
        }
    };
    let scale = config.input_scale(folder, is_transcoder)?;
    let mut arrays = read_safetensors(&weights_path)?;
    let encoder = arrays.take("W_enc", 2)?;
    let [input, n] = [encoder.shape[0], encoder.shape[1]];
    let decoder = arrays.take("W_dec", 2)?;
    let output = decoder.shape[1];
    let widths = Widths { input, output };
    let take = |arrays: &mut super::Arrays<'_>, name: &str| arrays.take_shaped(name, &[n]);
    let mut raw = RawWeights {
        hidden: None,
        widths,
        w_enc: encoder.transposed().values,
        b_enc: take(&mut arrays, if base == "gated" { "b_gate" } else { "b_enc" })?,
        w_dec: decoder.values,
        b_dec: arrays.take_shaped("b_dec", &[output])?,
        threshold: None,
        r_mag: None,
        b_mag: None,
        w_skip: is_skip.then(|| arrays.take_shaped("W_skip", &[output, input])).transpose()?,
    };
    if let Some(scale) = scale {
        raw.w_enc.iter_mut().for_each(|w| *w *= scale);
        raw.w_dec.iter_mut().chain(&mut raw.b_dec).for_each(|w| *w /= scale);
    }
    let is_rescaled = matches!(base, "topk" | "batchtopk") && config.flag("rescale_acts_by_decoder_norm", false);
    if is_rescaled {
        move_norms(&mut raw);
    }
    let kind = match base {
        "topk" => DictionaryKind::TopK(TopK { n, k: config.k()?, ..TopK::default() }),
        "batchtopk" => {
            let threshold = arrays.take("topk_threshold", 0)?.values[0];
            if threshold <= 0.0 {
                let message = format!("`topk_threshold` is {threshold}: training had not yet set it, so tokens cannot be encoded alone");
                return Err(InteropError::Content { path: weights_path.clone(), message });
            }
            // It is one on u ‖W_dec,i‖, and the rows are shorter by s now.
            let threshold = if is_rescaled { threshold / scale.unwrap_or(1.0) } else { threshold };
            raw.threshold = Some(vec![threshold; n]);
            DictionaryKind::JumpRelu(JumpRelu { n, ..JumpRelu::default() })
        }
        "jumprelu" => {
            raw.threshold = Some(take(&mut arrays, "threshold")?);
            DictionaryKind::JumpRelu(JumpRelu { n, ..JumpRelu::default() })
        }
        "gated" => {
            (raw.r_mag, raw.b_mag) = (Some(take(&mut arrays, "r_mag")?), Some(take(&mut arrays, "b_mag")?));
            DictionaryKind::Gated(Gated { n, ..Gated::default() })
        }
        _ => DictionaryKind::Relu(Relu { n, ..Relu::default() }),
    };
    // Older versions wrote one for every dictionary, and changed it only in finetuning.
    if arrays.has("scaling_factor") && take(&mut arrays, "scaling_factor")?.iter().any(|factor| (factor - 1.0).abs() > 1e-5) {
        return Err(config.unsupported("finetuning_scaling_factor", "not 1".into(), "fold `scaling_factor` into W_dec first"));
    }
    arrays.finish()?;
    let kind = if is_transcoder { DictionaryKind::Transcoder(Transcoder { base: Box::new(kind), skip: is_skip }) } else { kind };
    if !is_transcoder && !config.flag("apply_b_dec_to_input", true) {
        raw = raw.moved_centre(1.0);
    }
    let dictionary = Dictionary::from_raw(kind, raw, device).map_err(|source| InteropError::Dictionary { path: folder.into(), source })?;
    let about = match keys.get("metadata") {
        Some(Value::Object(metadata)) => metadata.clone(),
        _ => without(&keys, MAP_KEYS)
            .into_iter()
            .map(|(key, value)| (key.replace("hook_point_", "hook_").replace("hook_point", "hook_name"), value))
            .collect(),
    };
    Ok((dictionary, about))
}

/// Moves the norms of the decoder's rows into the encoder: `W_enc,i ‖W_dec,i‖`, `b_enc,i ‖W_dec,i‖`, `W_dec,i / ‖W_dec,i‖`.
fn move_norms(raw: &mut RawWeights) {
    let (input, output) = (raw.widths.input, raw.widths.output);
    let rows = raw.w_enc.chunks_mut(input).zip(raw.w_dec.chunks_mut(output)).zip(&mut raw.b_enc);
    for ((encoder, decoder), bias) in rows {
        let norm = decoder.iter().map(|w| f64::from(*w) * f64::from(*w)).sum::<f64>().sqrt() as f32;
        if norm > 0.0 {
            encoder.iter_mut().for_each(|w| *w *= norm);
            decoder.iter_mut().for_each(|w| *w /= norm);
            *bias *= norm;
        }
    }
}

/// Writes the folder; `metadata` goes under that key.
pub(super) fn write(dictionary: &Dictionary, folder: &Path, metadata: &Map<String, Value>) -> Result<(), InteropError> {
    let (base, transcoder) = match &dictionary.kind {
        DictionaryKind::Transcoder(transcoder) => (transcoder.base.as_ref(), Some(transcoder.skip)),
        other => (other, None),
    };
    let architecture = match (base, transcoder) {
        (DictionaryKind::Relu(_) | DictionaryKind::PAnneal(_), None) => "standard",
        (DictionaryKind::TopK(_), None) => "topk",
        (DictionaryKind::JumpRelu(_), None) => "jumprelu",
        (DictionaryKind::Gated(_), None) => "gated",
        (DictionaryKind::Relu(_) | DictionaryKind::PAnneal(_), Some(false)) => "transcoder",
        (DictionaryKind::Relu(_) | DictionaryKind::PAnneal(_), Some(true)) => "skip_transcoder",
        (DictionaryKind::JumpRelu(_), Some(false)) => "jumprelu_transcoder",
        (DictionaryKind::JumpRelu(_), Some(true)) => "jumprelu_skip_transcoder",
        _ => {
            let possible = "relu, p-anneal, topk, gated, jumprelu, a trained batchtopk or matryoshka, and transcoders of relu and jumprelu";
            return Err(cannot_write(dictionary, folder, Format::SaeLens, possible));
        }
    };
    let raw = dictionary.raw();
    let (n, widths) = (raw.n(), raw.widths);
    let mut arrays = vec![
        ("W_enc", Array::matrix(n, widths.input, raw.w_enc).transposed()),
        ("W_dec", Array::matrix(n, widths.output, raw.w_dec)),
        (if architecture == "gated" { "b_gate" } else { "b_enc" }, Array::vector(raw.b_enc)),
        ("b_dec", Array::vector(raw.b_dec)),
    ];
    let extras = [("threshold", raw.threshold), ("r_mag", raw.r_mag), ("b_mag", raw.b_mag)];
    arrays.extend(extras.into_iter().filter_map(|(name, values)| values.map(|values| (name, Array::vector(values)))));
    arrays.extend(raw.w_skip.map(|values| ("W_skip", Array::matrix(widths.output, widths.input, values))));
    // Activations at that hook come as heads there.
    let at_heads = metadata.get("hook_name").and_then(Value::as_str).is_some_and(|hook| hook.ends_with("hook_z"));
    let mut config = json!({
        "architecture": architecture,
        "d_in": widths.input,
        "d_sae": n,
        "dtype": "float32",
        "device": "cpu",
        "apply_b_dec_to_input": transcoder.is_none(),
        "normalize_activations": "none",
        "reshape_activations": if at_heads { "hook_z" } else { "none" },
        "metadata": metadata,
    });
    if transcoder.is_some() {
        config["d_out"] = widths.output.into();
    }
    if let DictionaryKind::TopK(topk) = base {
        config["k"] = topk.k.into();
        config["rescale_acts_by_decoder_norm"] = false.into();
    }
    write_safetensors(&folder.join("sae_weights.safetensors"), &arrays)?;
    write_json(&folder.join("cfg.json"), &config)
}
