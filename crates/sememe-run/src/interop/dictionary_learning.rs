//! dictionary_learning folders: `ae.pt`, a saved state dict, and `config.json`, which names its class.
//!
//! | class | arrays | code |
//! |---|---|---|
//! | AutoEncoder | `encoder.weight [n, d]`, `encoder.bias`, `decoder.weight [d, n]`, `bias` | relu |
//! | AutoEncoderNew | the same with `decoder.bias`, which is not taken off before the encoder | relu |
//! | AutoEncoderTopK | … `b_dec`, `k`, `threshold` | topk |
//! | BatchTopKSAE | … `b_dec`, `k`, `threshold` | jumprelu with that threshold |
//! | MatryoshkaBatchTopKSAE | `W_enc [d, n]`, `b_enc`, `W_dec [n, d]`, `b_dec`, `k`, `threshold`, `group_sizes` | the same |
//! | JumpReluAutoEncoder | `W_enc`, `b_enc`, `W_dec`, `b_dec`, `threshold [n]`; b_dec is not taken off | jumprelu |
//! | GatedAutoEncoder | `encoder.weight`, `decoder.weight`, `decoder_bias`, `gate_bias`, `mag_bias`, `r_mag` | gated |
//!
//! TopK and BatchTopK have the same arrays: without `config.json` they cannot be told apart. Early versions have no `k`
//! or `threshold` among the arrays; `group_sizes` matters in training alone, since all groups are active after it.
//!
//! # Source
//! dictionary_learning 0.1.0, dictionary.py and trainers/*.py.

use std::path::Path;

use burn::tensor::Device;
use sememe::dictionary::{Dictionary, DictionaryKind, Gated, JumpRelu, RawWeights, Relu, TopK, Widths};
use serde_json::{Map, Value, json};

use super::arrays::{Array, Arrays};
use super::{Format, InteropError, cannot_write, read_json, torch_file, without, write_json};

/// Keys of the config's `trainer` that say what the weights and the kind say already.
const MAP_KEYS: &[&str] =
    &["activation_dim", "dict_class", "dict_size", "group_fractions", "group_sizes", "group_weights", "k", "trainer_class"];

/// Classes that are read.
const KNOWN: [&str; 7] = [
    "AutoEncoder",
    "AutoEncoderNew",
    "AutoEncoderTopK",
    "BatchTopKSAE",
    "MatryoshkaBatchTopKSAE",
    "JumpReluAutoEncoder",
    "GatedAutoEncoder",
];

/// The class that the config names, which the arrays must bear out, or that they have where it names none.
fn class_of(path: &Path, arrays: &Arrays<'_>, config: &Map<String, Value>) -> Result<String, InteropError> {
    let named = config.get("trainer").and_then(|trainer| trainer.get("dict_class")).and_then(Value::as_str);
    // Written as `AutoEncoder` or as `<class 'dictionary_learning.….AutoEncoder'>`.
    let named = named.map(|name| name.trim_end_matches("'>").rsplit('.').next().unwrap_or(name).to_string());
    let by_arrays = if arrays.has("gate_bias") {
        Some("GatedAutoEncoder")
    } else if arrays.has("W_enc") {
        Some(if arrays.has("group_sizes") { "MatryoshkaBatchTopKSAE" } else { "JumpReluAutoEncoder" })
    } else if arrays.has("b_dec") {
        None
    } else if arrays.has("decoder.bias") {
        Some("AutoEncoderNew")
    } else {
        Some("AutoEncoder")
    };
    match (named, by_arrays) {
        (Some(named), Some(found)) if KNOWN.contains(&named.as_str()) && named != found => Err(InteropError::Content {
            path: path.into(),
            message: format!(
                "`trainer.dict_class` is \"{named}\", but ae.pt holds the arrays of {found}; give the config.json that belongs to it"
            ),
        }),
        (Some(named), _) if KNOWN.contains(&named.as_str()) => Ok(named),
        (Some(named), _) => Err(InteropError::Unsupported {
            path: path.into(),
            key: "trainer.dict_class",
            got: format!("\"{named}\""),
            expected: format!("known are {}", KNOWN.join(", ")),
        }),
        (None, Some(found)) => Ok(found.into()),
        (None, None) => Err(InteropError::Content {
            path: path.into(),
            message: "TopK and BatchTopK have the same arrays; give the config.json whose trainer.dict_class says which this is".into(),
        }),
    }
}

/// The dictionary in the folder, and what else its config says of the training.
pub(super) fn read(folder: &Path, device: &Device) -> Result<(Dictionary, Map<String, Value>), InteropError> {
    let (cfg_path, weights_path) = (folder.join("config.json"), folder.join("ae.pt"));
    let config = if cfg_path.is_file() { read_json(&cfg_path)? } else { Map::new() };
    let mut arrays = torch_file::read(&weights_path)?;
    let class = class_of(&cfg_path, &arrays, &config)?;
    let trainer = config.get("trainer").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut k = 0;
    let scalar = |arrays: &mut Arrays<'_>, name: &str| arrays.take(name, 0).map(|array| array.values[0]);
    let (w_enc, w_dec) = if arrays.has("W_enc") {
        (arrays.take("W_enc", 2)?.transposed(), arrays.take("W_dec", 2)?)
    } else {
        (arrays.take("encoder.weight", 2)?, arrays.take("decoder.weight", 2)?.transposed())
    };
    let [n, d] = [w_enc.shape[0], w_enc.shape[1]];
    let (encoder_bias, decoder_bias) = match class.as_str() {
        "AutoEncoder" => ("encoder.bias", "bias"),
        "AutoEncoderNew" => ("encoder.bias", "decoder.bias"),
        "AutoEncoderTopK" | "BatchTopKSAE" => ("encoder.bias", "b_dec"),
        "MatryoshkaBatchTopKSAE" | "JumpReluAutoEncoder" => ("b_enc", "b_dec"),
        _ => ("gate_bias", "decoder_bias"),
    };
    let mut raw = RawWeights {
        hidden: None,
        widths: Widths { input: d, output: w_dec.shape[1] },
        w_enc: w_enc.values,
        b_enc: arrays.take_shaped(encoder_bias, &[n])?,
        w_dec: w_dec.values,
        b_dec: arrays.take_shaped(decoder_bias, &[d])?,
        threshold: None,
        r_mag: None,
        b_mag: None,
        w_skip: None,
    };
    match class.as_str() {
        "AutoEncoderTopK" | "BatchTopKSAE" | "MatryoshkaBatchTopKSAE" => {
            let in_config = trainer.get("k").and_then(Value::as_f64).filter(|_| !arrays.has("k"));
            k = in_config.map_or_else(|| scalar(&mut arrays, "k"), |k| Ok(k as f32))?.round() as usize;
            let threshold = arrays.has("threshold").then(|| scalar(&mut arrays, "threshold")).transpose()?;
            if class != "AutoEncoderTopK" {
                match threshold {
                    Some(threshold) if threshold >= 0.0 => raw.threshold = Some(vec![threshold; n]),
                    found => {
                        let found = found.map_or("missing".into(), |threshold| threshold.to_string());
                        let message = format!("`threshold` is {found}: training had not yet set it, so tokens cannot be encoded alone");
                        return Err(InteropError::Content { path: weights_path.clone(), message });
                    }
                }
            }
            if class == "MatryoshkaBatchTopKSAE" {
                let sizes = arrays.take("group_sizes", 1)?.values;
                let sum: f32 = sizes.iter().sum();
                if sum != n as f32 {
                    let message = format!("`group_sizes` add up to {sum}, but there are {n} latents");
                    return Err(InteropError::Content { path: weights_path.clone(), message });
                }
            }
        }
        "JumpReluAutoEncoder" => raw.threshold = Some(arrays.take_shaped("threshold", &[n])?),
        "GatedAutoEncoder" => {
            raw.r_mag = Some(arrays.take_shaped("r_mag", &[n])?);
            raw.b_mag = Some(arrays.take_shaped("mag_bias", &[n])?);
        }
        _ => {}
    }
    arrays.finish()?;
    if matches!(class.as_str(), "AutoEncoderNew" | "JumpReluAutoEncoder") {
        raw = raw.moved_centre(1.0);
    }
    let kind = match class.as_str() {
        "AutoEncoderTopK" => DictionaryKind::TopK(TopK { n, k, ..TopK::default() }),
        "GatedAutoEncoder" => DictionaryKind::Gated(Gated { n, ..Gated::default() }),
        "AutoEncoder" | "AutoEncoderNew" => DictionaryKind::Relu(Relu { n, ..Relu::default() }),
        _ => DictionaryKind::JumpRelu(JumpRelu { n, ..JumpRelu::default() }),
    };
    let dictionary = Dictionary::from_raw(kind, raw, device).map_err(|source| InteropError::Dictionary { path: folder.into(), source })?;
    Ok((dictionary, without(&trainer, MAP_KEYS)))
}

/// Writes the folder; keys of `metadata` stand in the config's `trainer`.
pub(super) fn write(dictionary: &Dictionary, folder: &Path, metadata: &Map<String, Value>) -> Result<(), InteropError> {
    let class = match &dictionary.kind {
        DictionaryKind::Relu(_) | DictionaryKind::PAnneal(_) => "AutoEncoder",
        DictionaryKind::TopK(_) => "AutoEncoderTopK",
        DictionaryKind::JumpRelu(_) => "JumpReluAutoEncoder",
        DictionaryKind::Gated(_) => "GatedAutoEncoder",
        _ => {
            let possible = "relu, p-anneal, topk, gated, jumprelu, and a trained batchtopk or matryoshka";
            return Err(cannot_write(dictionary, folder, Format::DictionaryLearning, possible));
        }
    };
    let raw = dictionary.raw();
    let raw = if class == "JumpReluAutoEncoder" { raw.moved_centre(-1.0) } else { raw };
    let (n, widths) = (raw.n(), raw.widths);
    let (w_enc, w_dec) = (Array::matrix(n, widths.input, raw.w_enc), Array::matrix(n, widths.output, raw.w_dec));
    let (b_enc, b_dec) = (Array::vector(raw.b_enc), Array::vector(raw.b_dec));
    let vector = |values: Option<Vec<f32>>| Array::vector(values.unwrap_or_default());
    let linear = |bias: (&'static str, Array), more: Vec<(&'static str, Array)>| {
        [vec![("encoder.weight", w_enc.clone()), ("decoder.weight", w_dec.transposed()), bias], more].concat()
    };
    let mut trainer = json!({ "dict_class": class, "activation_dim": widths.input, "dict_size": n });
    let arrays = match &dictionary.kind {
        DictionaryKind::TopK(topk) => {
            trainer["k"] = topk.k.into();
            let number = |value: f32| Array { shape: vec![], values: vec![value] };
            linear(("encoder.bias", b_enc), vec![("b_dec", b_dec), ("k", number(topk.k as f32)), ("threshold", number(-1.0))])
        }
        DictionaryKind::Gated(_) => {
            linear(("gate_bias", b_enc), vec![("decoder_bias", b_dec), ("mag_bias", vector(raw.b_mag)), ("r_mag", vector(raw.r_mag))])
        }
        DictionaryKind::JumpRelu(_) => {
            let threshold = vector(raw.threshold);
            vec![("W_enc", w_enc.transposed()), ("b_enc", b_enc), ("W_dec", w_dec), ("b_dec", b_dec), ("threshold", threshold)]
        }
        _ => linear(("encoder.bias", b_enc), vec![("bias", b_dec)]),
    };
    for (key, value) in metadata {
        if trainer.get(key).is_none() {
            trainer[key] = value.clone();
        }
    }
    torch_file::write(&folder.join("ae.pt"), &arrays, &["k"])?;
    write_json(&folder.join("config.json"), &json!({ "trainer": trainer }))
}
