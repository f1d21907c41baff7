//! Gemma 1, 2 and 3 (text): norms times 1 + gain, scaled embeddings, gated GELU; norms after each part as well (2, 3).
//!
//! Gemma 2 caps scores and logits and alternates sliding and full layers;
//! Gemma 3 normalises queries and keys, has one full layer in six, and turns
//! sliding layers with a θ of their own.
//!
//! # Source
//! Gemma team 2024, arXiv 2403.08295 and 2408.00118; 2025, arXiv 2503.19786.

use serde_json::Value;

use super::{Family, llama_rules};
use crate::layer::Rope;
use crate::weights::{Piece, Rule};
use crate::{Config, Description, LmError, MixerKind, NormKind};

/// The family.
pub static FAMILY: Family = Family { tag: "gemma", model_types: &["gemma", "gemma2", "gemma3", "gemma3_text"], describe, rules };

fn describe(family: &'static Family, config: &Config) -> Result<Description, LmError> {
    let mut json = config.json.clone();
    if let (Value::Object(keys), None) = (&mut json, config.get("head_dim")) {
        keys.insert("head_dim".into(), 256.into());
    }
    let given = Config { json, ..config.clone() };
    let plain = Description::plain(family, &given)?;
    let kind = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
    let (is_first, is_third) = (kind == "gemma", kind.starts_with("gemma3"));
    let layers = plain.layers();
    let every = match (is_first, is_third) {
        (true, _) => 1,
        (_, true) => config.count_or("sliding_window_pattern", config.count_or("_sliding_window_pattern", 6)?)?,
        _ => 2,
    };
    let by_turn = || (1..=layers).map(|turn| if turn % every == 0 { MixerKind::Full } else { MixerKind::Sliding }).collect();
    let (rope, sliding_rope) = if is_third { third_ropes(config, plain.head_width)? } else { (plain.rope, None) };
    let scalar = if is_first { plain.head_width as f64 } else { config.number_or("query_pre_attn_scalar", 256.0)? };
    if scalar <= 0.0 {
        return Err(config.wrong("query_pre_attn_scalar", "must be above 0"));
    }
    // Old configs of Gemma 1 say `hidden_act: gelu` and mean the approximation.
    let named = if config.get("hidden_activation").is_some() { "hidden_activation" } else { "none" };
    let cap = |key, default| if config.json.get(key).is_none() { Ok(default) } else { config.positive(key) };
    let second = |value| if kind == "gemma2" { Some(value) } else { None };
    Ok(Description {
        mixers: config.layer_types(layers)?.unwrap_or_else(by_turn),
        norm: NormKind::RmsFromOne,
        rope,
        sliding_rope,
        window: if is_first { None } else { Some(config.count_or("sliding_window", 4096)?) },
        score_scale: scalar.powf(-0.5),
        score_cap: cap("attn_logit_softcapping", second(50.0))?,
        logit_cap: cap("final_logit_softcapping", second(30.0))?,
        activation: config.activation(&[named], "gelu_pytorch_tanh")?,
        has_qk_norm: is_third,
        has_post_norms: !is_first,
        embedding_scale: (plain.width as f64).sqrt(),
        is_tied: config.flag_or("tie_word_embeddings", true)?,
        config: config.json.clone(),
        ..plain
    })
}

/// The rotations of full and of sliding layers, in the form of either generation of configs.
fn third_ropes(config: &Config, head_width: usize) -> Result<(Option<Rope>, Option<Rope>), LmError> {
    if let Some(nested) = config.get("rope_parameters") {
        let of = |kind: &str| match nested.get(kind) {
            Some(keys) => Rope::read_scaled(config, keys, keys, head_width),
            None => Err(config.wrong("rope_parameters", &format!("has no `{kind}`"))),
        };
        return Ok((Some(of("full_attention")?), Some(of("sliding_attention")?)));
    }
    let mut keys = config.json.clone();
    if config.get("rope_theta").is_none() {
        keys["rope_theta"] = 1e6.into();
    }
    let full = Rope::read(config, &keys, head_width)?;
    let local = config.positive("rope_local_base_freq")?.unwrap_or(1e4);
    let sliding = Rope { theta: local, scaling: crate::RopeScaling::None, ..full };
    Ok((Some(full), Some(sliding)))
}

fn rules(description: &Description) -> Vec<Rule> {
    let norm = |parameter, name: &str| Rule::new(parameter, vec![Piece::same(&format!("model.layers.*.{name}.weight"))]);
    if !description.has_post_norms {
        return llama_rules(description, "post_attention_layernorm");
    }
    let mut rules = llama_rules(description, "pre_feedforward_layernorm");
    rules.push(norm("layers.*.attention_post_norm.gain", "post_attention_layernorm"));
    rules.push(norm("layers.*.mlp_post_norm.gain", "post_feedforward_layernorm"));
    rules
}
