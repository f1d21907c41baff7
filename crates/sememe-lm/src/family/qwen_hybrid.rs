//! Qwen3-Next and Qwen 3.5 (dense): three layers with a gated delta rule to one with gated attention.
//!
//! Norms are times 1 + gain, queries and keys are normalised, a quarter of
//! each head is turned, attention's output is gated. The two differ in how the
//! projections of the delta layers are stored.
//!
//! # Source
//! Qwen team 2025, Qwen3-Next and Qwen 3.5 model cards; Yang, Kautz & Hatamizadeh 2024, arXiv 2412.06464.

use super::{Family, llama_rules};
use crate::layer::Rope;
use crate::weights::{Piece, Rule};
use crate::{Config, DeltaSizes, Description, LmError, MixerKind, NormKind};

/// The family.
pub static FAMILY: Family = Family { tag: "qwen-hybrid", model_types: &["qwen3_next", "qwen3_5", "qwen3_5_text"], describe, rules };

fn describe(family: &'static Family, config: &Config) -> Result<Description, LmError> {
    let plain = Description::plain(family, config)?;
    let layers = plain.layers();
    let every = config.count_or("full_attention_interval", 4)?;
    let by_turn = || (1..=layers).map(|turn| if turn % every == 0 { MixerKind::Full } else { MixerKind::DeltaNet }).collect();
    let is_stated = config.json.to_string().contains("partial_rotary_factor");
    let rope = plain.rope.map(|rope| Rope { turned: if is_stated { rope.turned } else { plain.head_width / 8 * 2 }, ..rope });
    if config.flag_or("attention_bias", false)? {
        return Err(config.wrong("attention_bias", "is true, which no published model of the family has; it is not supported"));
    }
    let delta = DeltaSizes {
        key_heads: config.count_or("linear_num_key_heads", 16)?,
        value_heads: config.count_or("linear_num_value_heads", 32)?,
        key_width: config.count_or("linear_key_head_dim", 128)?,
        value_width: config.count_or("linear_value_head_dim", 128)?,
        taps: config.count_or("linear_conv_kernel_dim", 4)?,
    };
    if !delta.value_heads.is_multiple_of(delta.key_heads) {
        return Err(config.wrong("linear_num_key_heads", "does not divide `linear_num_value_heads`"));
    }
    Ok(Description {
        mixers: config.layer_types(layers)?.unwrap_or_else(by_turn),
        norm: NormKind::RmsFromOne,
        rope,
        has_qk_norm: true,
        has_output_gate: true,
        delta: Some(delta),
        is_tied: config.flag_or("tie_word_embeddings", false)?,
        ..plain
    })
}

fn rules(description: &Description) -> Vec<Rule> {
    let Description { heads, kv_heads, head_width, .. } = *description;
    let attention = |name: &str| Piece::linear(&format!("model.layers.*.self_attn.{name}_proj.weight"));
    let delta = |name: &str| format!("model.layers.*.linear_attn.{name}");
    // Queries and gate alternate, head by head.
    let pair = [head_width, head_width];
    let mut rules = vec![
        Rule::new(
            "layers.*.attention.qkv",
            vec![
                attention("q").part(heads, &pair, 0),
                attention("k").rows(kv_heads * head_width),
                attention("v").rows(kv_heads * head_width),
            ],
        ),
        Rule::new("layers.*.attention.gate", vec![attention("q").part(heads, &pair, 1)]),
        Rule::new("layers.*.delta_net.conv", vec![Piece::channels(&delta("conv1d.weight"))]),
        Rule::new("layers.*.delta_net.dt_bias", vec![Piece::same(&delta("dt_bias"))]),
        Rule::new("layers.*.delta_net.a_log", vec![Piece::same(&delta("A_log"))]),
        Rule::new("layers.*.delta_net.gain", vec![Piece::same(&delta("norm.weight"))]),
        Rule::new("layers.*.delta_net.output", vec![Piece::linear(&delta("out_proj.weight"))]),
    ];
    if let Some(sizes) = description.delta {
        rules.extend(projections(sizes, description.config.get("model_type").is_some_and(|kind| kind == "qwen3_next")));
    }
    rules.extend(llama_rules(description, "post_attention_layernorm"));
    rules
}

/// The projections into the delta rule: by key head in Qwen3-Next, one after another in Qwen 3.5.
fn projections(sizes: DeltaSizes, by_key_head: bool) -> [Rule; 3] {
    let DeltaSizes { key_heads, value_heads, key_width, value_width, .. } = sizes;
    let name = |end: &str| format!("model.layers.*.linear_attn.in_proj_{end}.weight");
    let [qkv, z, ba] = ["layers.*.delta_net.qkv", "layers.*.delta_net.z", "layers.*.delta_net.ba"];
    if by_key_head {
        let group = value_heads / key_heads;
        let runs = [key_width, key_width, group * value_width, group * value_width];
        let qkvz = |index| Piece::linear(&name("qkvz")).part(key_heads, &runs, index);
        let gates = |index| Piece::linear(&name("ba")).part(key_heads, &[group, group], index);
        [Rule::new(qkv, (0..3).map(qkvz).collect()), Rule::new(z, vec![qkvz(3)]), Rule::new(ba, (0..2).map(gates).collect())]
    } else {
        let gate = |end: &str| Piece::linear(&name(end)).rows(value_heads);
        [
            Rule::new(qkv, vec![Piece::linear(&name("qkv"))]),
            Rule::new(z, vec![Piece::linear(&name("z"))]),
            Rule::new(ba, vec![gate("b"), gate("a")]),
        ]
    }
}
