//! GPT-NeoX and Pythia: layer norm, part of each head turned, attention and MLP in parallel, biases.
//!
//! # Source
//! Black et al. 2022, arXiv 2204.06745; Biderman et al. 2023, arXiv 2304.01373.

use super::Family;
use crate::layer::Rope;
use crate::weights::{Piece, Rule};
use crate::{Config, Description, LmError, NormKind};

/// The family.
pub static FAMILY: Family = Family { tag: "neox", model_types: &["gpt_neox"], describe, rules };

fn describe(family: &'static Family, config: &Config) -> Result<Description, LmError> {
    let plain = Description::plain(family, config)?;
    let is_stated = ["rotary_pct", "partial_rotary_factor"].iter().any(|key| config.json.to_string().contains(key));
    let rope = plain.rope.map(|rope| Rope { turned: if is_stated { rope.turned } else { plain.head_width / 8 * 2 }, ..rope });
    let bias = config.flag_or("attention_bias", true)?;
    Ok(Description {
        norm: NormKind::Layer,
        norm_epsilon: config.number_or("layer_norm_eps", 1e-5)?,
        rope,
        activation: config.activation(&["hidden_act"], "gelu")?,
        is_gated: false,
        has_qkv_bias: bias,
        has_output_bias: bias,
        has_mlp_bias: true,
        is_parallel: config.flag_or("use_parallel_residual", true)?,
        is_tied: config.flag_or("tie_word_embeddings", false)?,
        ..plain
    })
}

fn rules(description: &Description) -> Vec<Rule> {
    let Description { heads, head_width, .. } = *description;
    let name = |name: &str| format!("gpt_neox.layers.*.{name}");
    let one = |parameter, end: &str| Rule::new(parameter, vec![Piece::same(&name(end))]);
    let linear = |parameter, end: &str| Rule::new(parameter, vec![Piece::linear(&name(end))]);
    // Query, key and value of a head lie together.
    let thirds = |piece: Piece| (0..3).map(|index| piece.clone().part(heads, &[head_width; 3], index)).collect();
    vec![
        Rule::new("embed", vec![Piece::same("gpt_neox.embed_in.weight")]),
        Rule::new("final_norm.gain", vec![Piece::same("gpt_neox.final_layer_norm.weight")]),
        Rule::new("final_norm.bias", vec![Piece::same("gpt_neox.final_layer_norm.bias")]),
        Rule::new("head", vec![Piece::linear("embed_out.weight")]),
        one("layers.*.attention_norm.gain", "input_layernorm.weight"),
        one("layers.*.attention_norm.bias", "input_layernorm.bias"),
        one("layers.*.mlp_norm.gain", "post_attention_layernorm.weight"),
        one("layers.*.mlp_norm.bias", "post_attention_layernorm.bias"),
        Rule::new("layers.*.attention.qkv", thirds(Piece::linear(&name("attention.query_key_value.weight")))),
        Rule::new("layers.*.attention.qkv_bias", thirds(Piece::same(&name("attention.query_key_value.bias")))),
        linear("layers.*.attention.output", "attention.dense.weight"),
        one("layers.*.attention.output_bias", "attention.dense.bias"),
        linear("layers.*.mlp.up", "mlp.dense_h_to_4h.weight"),
        one("layers.*.mlp.up_bias", "mlp.dense_h_to_4h.bias"),
        linear("layers.*.mlp.down", "mlp.dense_4h_to_h.weight"),
        one("layers.*.mlp.down_bias", "mlp.dense_4h_to_h.bias"),
    ]
}
