//! The families of transformers: each a reading of `config.json` and a table of tensor names, in its own file.
//!
//! To add one: its file with a [`Family`], and its line in [`FAMILIES`].

mod gemma;
mod gpt2;
mod llama;
mod neox;
mod qwen;
mod qwen_hybrid;

use serde_json::Value;

use crate::weights::{Piece, Rule};
use crate::{Config, Description, LmError};

/// A family.
#[derive(Debug)]
pub struct Family {
    /// Its name here.
    pub tag: &'static str,
    /// The `model_type`s that it reads.
    pub model_types: &'static [&'static str],
    /// Reads a config.
    pub describe: fn(&'static Family, &Config) -> Result<Description, LmError>,
    /// Of which tensors each parameter is made.
    pub rules: fn(&Description) -> Vec<Rule>,
}

/// Every family.
pub static FAMILIES: [&Family; 6] = [&llama::FAMILY, &qwen::FAMILY, &qwen_hybrid::FAMILY, &gemma::FAMILY, &gpt2::FAMILY, &neox::FAMILY];

/// The description that the config's own family gives.
pub(crate) fn describe(config: &Config) -> Result<Description, LmError> {
    let found = config.get("model_type").and_then(Value::as_str).unwrap_or_default().to_string();
    let experts = ["num_experts", "num_local_experts", "n_routed_experts", "expert_count"];
    let sparse = experts.iter().any(|key| config.get(key).and_then(Value::as_u64).is_some_and(|experts| experts > 1));
    if (sparse && !is_dense_throughout(config)) || found.contains("moe") || found == "mixtral" {
        return Err(LmError::MixtureOfExperts { file: config.file.clone(), found });
    }
    match FAMILIES.iter().find(|family| family.model_types.contains(&found.as_str())) {
        Some(family) => (family.describe)(family, config),
        None => {
            let known: Vec<&str> = FAMILIES.iter().flat_map(|family| family.model_types.iter().copied()).collect();
            Err(LmError::UnknownArchitecture { file: config.file.clone(), found, known: known.join(", ") })
        }
    }
}

/// Whether every layer is listed among those with an ordinary MLP.
fn is_dense_throughout(config: &Config) -> bool {
    let dense = config.get("mlp_only_layers").and_then(Value::as_array).map_or(0, Vec::len);
    config.get("num_hidden_layers").and_then(Value::as_u64).is_some_and(|layers| layers as usize == dense)
}

/// The names of Llama, which most families share; `mlp_norm` names the norm before the MLP.
fn llama_rules(description: &Description, mlp_norm: &str) -> Vec<Rule> {
    let (q, kv) = (description.heads * description.head_width, description.kv_heads * description.head_width);
    let m = description.mlp_width;
    let layer = |rest: &str| format!("model.layers.*.{rest}");
    let one = |parameter, name: &str| Rule::new(parameter, vec![Piece::same(&layer(name))]);
    let linear = |parameter, name: &str| Rule::new(parameter, vec![Piece::linear(&layer(name))]);
    let qkv = |piece: fn(&str) -> Piece, end: &str| {
        let of = |letter: &str, rows| piece(&layer(&format!("self_attn.{letter}_proj.{end}"))).rows(rows);
        vec![of("q", q), of("k", kv), of("v", kv)]
    };
    let up = |piece: fn(&str) -> Piece, end: &str| {
        let of = |name: &str| piece(&layer(&format!("mlp.{name}_proj.{end}"))).rows(m);
        vec![of("gate"), of("up")]
    };
    vec![
        Rule::new("embed", vec![Piece::same("model.embed_tokens.weight")]),
        Rule::new("final_norm.gain", vec![Piece::same("model.norm.weight")]),
        Rule::new("head", vec![Piece::linear("lm_head.weight")]),
        one("layers.*.attention_norm.gain", "input_layernorm.weight"),
        one("layers.*.mlp_norm.gain", &format!("{mlp_norm}.weight")),
        Rule::new("layers.*.attention.qkv", qkv(Piece::linear, "weight")),
        Rule::new("layers.*.attention.qkv_bias", qkv(Piece::same, "bias")),
        one("layers.*.attention.q_norm.gain", "self_attn.q_norm.weight"),
        one("layers.*.attention.k_norm.gain", "self_attn.k_norm.weight"),
        linear("layers.*.attention.output", "self_attn.o_proj.weight"),
        one("layers.*.attention.output_bias", "self_attn.o_proj.bias"),
        Rule::new("layers.*.mlp.up", up(Piece::linear, "weight")),
        Rule::new("layers.*.mlp.up_bias", up(Piece::same, "bias")),
        linear("layers.*.mlp.down", "mlp.down_proj.weight"),
        one("layers.*.mlp.down_bias", "mlp.down_proj.bias"),
    ]
}
