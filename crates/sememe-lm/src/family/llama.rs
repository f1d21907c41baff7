//! Llama 2 and 3, SmolLM and Mistral: RMS norm, grouped heads, rotary positions, gated SiLU.
//!
//! # Source
//! Touvron et al. 2023, arXiv 2307.09288; Grattafiori et al. 2024, arXiv 2407.21783; Allal et al. 2025, arXiv 2502.02737.

use super::{Family, llama_rules};
use crate::{Config, Description, LmError, MixerKind};

/// The family.
pub static FAMILY: Family = Family {
    tag: "llama",
    model_types: &["llama", "mistral"],
    describe,
    rules: |description| llama_rules(description, "post_attention_layernorm"),
};

fn describe(family: &'static Family, config: &Config) -> Result<Description, LmError> {
    let plain = Description::plain(family, config)?;
    let bias = config.flag_or("attention_bias", false)?;
    let window = config.count_or("sliding_window", 0)?;
    let (mixers, window) = if window > 0 && config.get("model_type").is_some_and(|kind| kind == "mistral") {
        (vec![MixerKind::Sliding; plain.layers()], Some(window))
    } else {
        (plain.mixers.clone(), None)
    };
    Ok(Description {
        mixers,
        window,
        has_qkv_bias: bias,
        has_output_bias: bias,
        has_mlp_bias: config.flag_or("mlp_bias", false)?,
        is_tied: config.flag_or("tie_word_embeddings", false)?,
        ..plain
    })
}
