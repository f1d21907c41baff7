//! Qwen 2, 2.5 and 3: as Llama, with biases on queries, keys and values (2, 2.5) or norms of queries and keys (3).
//!
//! # Source
//! Yang et al. 2024, arXiv 2407.10671; Qwen team 2024, arXiv 2412.15115; Yang et al. 2025, arXiv 2505.09388.

use super::{Family, llama_rules};
use crate::{Config, Description, LmError, MixerKind};

/// The family.
pub static FAMILY: Family = Family {
    tag: "qwen",
    model_types: &["qwen2", "qwen3"],
    describe,
    rules: |description| llama_rules(description, "post_attention_layernorm"),
};

fn describe(family: &'static Family, config: &Config) -> Result<Description, LmError> {
    let plain = Description::plain(family, config)?;
    let is_third = config.get("model_type").is_some_and(|kind| kind == "qwen3");
    let bias = config.flag_or("attention_bias", false)?;
    let layers = plain.layers();
    let slides = config.flag_or("use_sliding_window", false)?;
    let window = if slides { Some(config.count("sliding_window")?) } else { None };
    let first = config.get("max_window_layers").and_then(serde_json::Value::as_u64).map_or(layers, |first| first as usize);
    let by_depth = || (0..layers).map(|layer| if slides && layer >= first { MixerKind::Sliding } else { MixerKind::Full }).collect();
    Ok(Description {
        mixers: config.layer_types(layers)?.unwrap_or_else(by_depth),
        window,
        has_qkv_bias: !is_third || bias,
        has_output_bias: is_third && bias,
        has_qk_norm: is_third,
        is_tied: config.flag_or("tie_word_embeddings", false)?,
        ..plain
    })
}
