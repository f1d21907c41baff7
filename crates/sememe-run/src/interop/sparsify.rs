//! Sparsify folders: `cfg.json` and `sae.safetensors`, TopK dictionaries and transcoders.
//!
//! `encoder.weight [n, d_in]`, `encoder.bias [n]`, `W_dec [n, d_out]`, `b_dec [d_out]`, and `W_skip [d_out, d_in]`
//! where there is a skip; `b_dec` is taken off before the encoder unless `transcode`, which is a matter apart from the
//! skip. Transcoders there have one width, so others are not written.
//!
//! # Source
//! EleutherAI's sparsify 1.3, sparsify/sparse_coder.py.

use std::path::Path;

use burn::tensor::Device;
use sememe::dictionary::{Dictionary, DictionaryKind, RawWeights, TopK, Transcoder, Widths};
use serde_json::{Map, Value, json};

use super::arrays::{Array, read_safetensors, write_safetensors};
use super::{Format, InteropError, cannot_write, read_json, without, write_json};

/// Keys of the config that say what the weights and the kind say already.
const MAP_KEYS: &[&str] = &[
    "activation",
    "d_in",
    "expansion_factor",
    "k",
    "multi_topk",
    "normalize_decoder",
    "num_latents",
    "signed",
    "skip_connection",
    "transcode",
];

/// The dictionary in the folder, and what else its config says.
pub(super) fn read(folder: &Path, device: &Device) -> Result<(Dictionary, Map<String, Value>), InteropError> {
    let (cfg_path, weights_path) = (folder.join("cfg.json"), folder.join("sae.safetensors"));
    let keys = read_json(&cfg_path)?;
    let unsupported = |key: &'static str, got: String, expected: &str| InteropError::Unsupported {
        path: cfg_path.clone(),
        key,
        got,
        expected: expected.into(),
    };
    let flag = |key: &str| keys.get(key).and_then(Value::as_bool).unwrap_or(false);
    if let Some(activation) = keys.get("activation").and_then(Value::as_str)
        && activation != "topk"
    {
        return Err(unsupported("activation", format!("\"{activation}\""), "known is topk"));
    }
    if flag("signed") {
        return Err(unsupported("signed", "true".into(), "our codes are not negative"));
    }
    let k = keys.get("k").and_then(Value::as_u64).filter(|&k| k > 0);
    let k = k.ok_or_else(|| unsupported("k", "missing".into(), "a topk dictionary says how many latents are active"))? as usize;
    let mut arrays = read_safetensors(&weights_path)?;
    let encoder = arrays.take("encoder.weight", 2)?;
    let [n, input] = [encoder.shape[0], encoder.shape[1]];
    let decoder = arrays.take("W_dec", 2)?;
    let output = decoder.shape[1];
    let skip = arrays.has("W_skip").then(|| arrays.take_shaped("W_skip", &[output, input])).transpose()?;
    let is_centred = !flag("transcode");
    if is_centred && input != output {
        return Err(unsupported("transcode", "false".into(), "activations of one width go in and another comes out; say true"));
    }
    let mut raw = RawWeights {
        hidden: None,
        widths: Widths { input, output },
        w_enc: encoder.values,
        b_enc: arrays.take_shaped("encoder.bias", &[n])?,
        w_dec: decoder.values,
        b_dec: arrays.take_shaped("b_dec", &[output])?,
        threshold: None,
        r_mag: None,
        b_mag: None,
        w_skip: skip,
    };
    arrays.finish()?;
    let topk = DictionaryKind::TopK(TopK { n, k, ..TopK::default() });
    let is_transcoder = !is_centred || raw.w_skip.is_some();
    if is_centred && is_transcoder {
        raw = raw.moved_centre(-1.0);
    }
    let kind =
        if is_transcoder { DictionaryKind::Transcoder(Transcoder { base: Box::new(topk), skip: raw.w_skip.is_some() }) } else { topk };
    let dictionary = Dictionary::from_raw(kind, raw, device).map_err(|source| InteropError::Dictionary { path: folder.into(), source })?;
    Ok((dictionary, without(&keys, MAP_KEYS)))
}

/// Writes the folder; keys of `metadata` stand beside ours.
pub(super) fn write(dictionary: &Dictionary, folder: &Path, metadata: &Map<String, Value>) -> Result<(), InteropError> {
    let (base, transcoder) = match &dictionary.kind {
        DictionaryKind::Transcoder(transcoder) => (transcoder.base.as_ref(), Some(transcoder.skip)),
        other => (other, None),
    };
    let DictionaryKind::TopK(topk) = base else {
        return Err(cannot_write(dictionary, folder, Format::Sparsify, "topk, and transcoders of it"));
    };
    let raw = dictionary.raw();
    let (n, widths) = (raw.n(), raw.widths);
    if widths.input != widths.output {
        return Err(InteropError::Unsupported {
            path: folder.into(),
            key: "d",
            got: format!("{} in and {} out", widths.input, widths.output),
            expected: "sparsify can hold one width".into(),
        });
    }
    let mut arrays = vec![
        ("encoder.weight", Array::matrix(n, widths.input, raw.w_enc)),
        ("encoder.bias", Array::vector(raw.b_enc)),
        ("W_dec", Array::matrix(n, widths.output, raw.w_dec)),
        ("b_dec", Array::vector(raw.b_dec)),
    ];
    arrays.extend(raw.w_skip.map(|values| ("W_skip", Array::matrix(widths.output, widths.input, values))));
    let mut config = json!({
        "activation": "topk",
        // A whole number there, and of no effect beside `num_latents`.
        "expansion_factor": n / widths.input,
        "normalize_decoder": true,
        "num_latents": n,
        "k": topk.k,
        "multi_topk": false,
        "skip_connection": transcoder == Some(true),
        "transcode": transcoder.is_some(),
        "d_in": widths.input,
    });
    for (key, value) in metadata {
        if config.get(key).is_none() {
            config[key] = value.clone();
        }
    }
    write_safetensors(&folder.join("sae.safetensors"), &arrays)?;
    write_json(&folder.join("cfg.json"), &config)
}
