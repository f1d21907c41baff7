//! GPT-2: layer norm, learned positions, biases everywhere, matrices stored `[in, out]`.
//!
//! # Source
//! Radford et al. 2019, *Language models are unsupervised multitask learners*.

use serde_json::{Map, Value};

use super::Family;
use crate::weights::{Piece, Rule};
use crate::{Config, Description, LmError, NormKind};

/// The family.
pub static FAMILY: Family = Family { tag: "gpt2", model_types: &["gpt2"], describe, rules };

/// Its names for what other families call otherwise.
const NAMES: [(&str, &str); 5] = [
    ("n_embd", "hidden_size"),
    ("n_head", "num_attention_heads"),
    ("n_layer", "num_hidden_layers"),
    ("n_inner", "intermediate_size"),
    ("n_positions", "max_position_embeddings"),
];

fn describe(family: &'static Family, config: &Config) -> Result<Description, LmError> {
    let mut keys: Map<String, Value> = config.json.as_object().cloned().unwrap_or_default();
    for (theirs, common) in NAMES {
        if let Some(value) = config.get(theirs) {
            keys.insert(common.into(), value.clone());
        }
    }
    if config.get("n_inner").is_none() {
        keys.insert("intermediate_size".into(), (4 * config.count("n_embd")?).into());
    }
    let common = Config { json: Value::Object(keys), file: config.file.clone() };
    for unusual in ["scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"] {
        if config.flag_or(unusual, false)? {
            return Err(config.wrong(unusual, "is true, which is not supported"));
        }
    }
    let plain = Description::plain(family, &common)?;
    let is_scaled = config.flag_or("scale_attn_weights", true)?;
    Ok(Description {
        norm: NormKind::Layer,
        norm_epsilon: config.number_or("layer_norm_epsilon", 1e-5)?,
        learned_positions: Some(common.count("max_position_embeddings")?),
        rope: None,
        score_scale: if is_scaled { plain.score_scale } else { 1.0 },
        activation: config.activation(&["activation_function"], "gelu_new")?,
        is_gated: false,
        has_qkv_bias: true,
        has_output_bias: true,
        has_mlp_bias: true,
        config: config.json.clone(),
        ..plain
    })
}

fn rules(_: &Description) -> Vec<Rule> {
    let one = |parameter, name: &str| Rule::new(parameter, vec![Piece::same(name)]);
    let layer = |parameter, name: &str| Rule::new(parameter, vec![Piece::same(&format!("h.*.{name}"))]);
    vec![
        one("embed", "wte.weight"),
        one("positions", "wpe.weight"),
        one("final_norm.gain", "ln_f.weight"),
        one("final_norm.bias", "ln_f.bias"),
        Rule::new("head", vec![Piece::linear("lm_head.weight")]),
        layer("layers.*.attention_norm.gain", "ln_1.weight"),
        layer("layers.*.attention_norm.bias", "ln_1.bias"),
        layer("layers.*.mlp_norm.gain", "ln_2.weight"),
        layer("layers.*.mlp_norm.bias", "ln_2.bias"),
        layer("layers.*.attention.qkv", "attn.c_attn.weight"),
        layer("layers.*.attention.qkv_bias", "attn.c_attn.bias"),
        layer("layers.*.attention.output", "attn.c_proj.weight"),
        layer("layers.*.attention.output_bias", "attn.c_proj.bias"),
        layer("layers.*.mlp.up", "mlp.c_fc.weight"),
        layer("layers.*.mlp.up_bias", "mlp.c_fc.bias"),
        layer("layers.*.mlp.down", "mlp.c_proj.weight"),
        layer("layers.*.mlp.down_bias", "mlp.c_proj.bias"),
    ]
}
