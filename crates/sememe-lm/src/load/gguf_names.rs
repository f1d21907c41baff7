//! A GGUF file under the keys and tensor names of Hugging Face, so that one description a family serves both.
//!
//! What the conversion to GGUF changed is changed back: Llama's queries and
//! keys are in the order of interleaved pairs, Gemma's norms have had 1 added,
//! GPT-2's matrices are transposed.
//!
//! # Source
//! llama.cpp, `convert_hf_to_gguf.py` and `gguf-py/gguf/tensor_mapping.py`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::gguf::Gguf;
use crate::layer::{Rope, RopeScaling};
use crate::weights::Checkpoint;
use crate::{Config, Description, LmError, family};

/// An opened file with its names changed.
pub(super) struct Renamed {
    pub gguf: Gguf,
    architecture: String,
    description: Description,
}

/// Config keys, with the metadata (after the architecture's name) from which they come.
const KEYS: [(&str, &str); 12] = [
    ("hidden_size", "embedding_length"),
    ("num_hidden_layers", "block_count"),
    ("intermediate_size", "feed_forward_length"),
    ("num_attention_heads", "attention.head_count"),
    ("num_key_value_heads", "attention.head_count_kv"),
    ("head_dim", "attention.key_length"),
    ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
    ("layer_norm_epsilon", "attention.layer_norm_epsilon"),
    ("max_position_embeddings", "context_length"),
    ("rope_theta", "rope.freq_base"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
];

/// Architectures that are read from GGUF.
const KNOWN: [&str; 7] = ["llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "gpt2"];

/// Tensor names of GPT-2 as it calls them, and of all others as Llama and Gemma do; `*` stands for the layer.
const GPT2_NAMES: [(&str, &str); 9] = [
    ("token_embd", "wte"),
    ("position_embd", "wpe"),
    ("output_norm", "ln_f"),
    ("blk.*.attn_norm", "h.*.ln_1"),
    ("blk.*.attn_qkv", "h.*.attn.c_attn"),
    ("blk.*.attn_output", "h.*.attn.c_proj"),
    ("blk.*.ffn_norm", "h.*.ln_2"),
    ("blk.*.ffn_up", "h.*.mlp.c_fc"),
    ("blk.*.ffn_down", "h.*.mlp.c_proj"),
];
const NAMES: [(&str, &str); 15] = [
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
    ("blk.*.attn_norm", "model.layers.*.input_layernorm"),
    ("blk.*.attn_q", "model.layers.*.self_attn.q_proj"),
    ("blk.*.attn_k", "model.layers.*.self_attn.k_proj"),
    ("blk.*.attn_v", "model.layers.*.self_attn.v_proj"),
    ("blk.*.attn_output", "model.layers.*.self_attn.o_proj"),
    ("blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm"),
    ("blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm"),
    ("blk.*.ffn_gate", "model.layers.*.mlp.gate_proj"),
    ("blk.*.ffn_up", "model.layers.*.mlp.up_proj"),
    ("blk.*.ffn_down", "model.layers.*.mlp.down_proj"),
    ("blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm"),
    ("blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm"),
];

impl Renamed {
    pub fn open(path: &Path) -> Result<Self, LmError> {
        let gguf = Gguf::open(path)?;
        let architecture = gguf.metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default().to_string();
        let config = config(&gguf, &architecture)?;
        let description = family::describe(&Config::new(config, path.to_path_buf()))?;
        Ok(Self { gguf, architecture, description })
    }

    pub fn describe(&self) -> Result<Description, LmError> {
        Ok(self.description.clone())
    }

    /// GGUF's name of a Hugging Face tensor.
    fn original(&self, name: &str) -> Option<String> {
        let (stem, end) = name.rsplit_once('.')?;
        let layer = stem.split('.').find(|part| part.parse::<usize>().is_ok());
        let pattern = layer.map_or(stem.to_string(), |layer| stem.replacen(&format!(".{layer}."), ".*.", 1));
        let is_gemma = matches!(self.architecture.as_str(), "gemma2" | "gemma3");
        let theirs = match (self.architecture.as_str(), pattern.as_str()) {
            ("gpt2", pattern) => GPT2_NAMES.iter().find(|(_, common)| *common == pattern).map(|(theirs, _)| *theirs),
            (_, "model.layers.*.pre_feedforward_layernorm") => Some("blk.*.ffn_norm"),
            (_, "model.layers.*.post_attention_layernorm") if !is_gemma => Some("blk.*.ffn_norm"),
            (_, pattern) => NAMES.iter().find(|(_, common)| *common == pattern).map(|(theirs, _)| *theirs),
        }?;
        Some(format!("{}.{end}", theirs.replace('*', layer.unwrap_or_default())))
    }
}

/// The `config.json` that the metadata amount to.
fn config(gguf: &Gguf, architecture: &str) -> Result<Value, LmError> {
    let wrong = |key: &str, problem: String| LmError::Key { file: gguf.path.clone(), key: key.to_string(), problem };
    let get = |key: &str| gguf.metadata.get(&format!("{architecture}.{key}"));
    if get("expert_count").and_then(Value::as_u64).is_some_and(|count| count > 0) || architecture.ends_with("moe") {
        return Err(LmError::MixtureOfExperts { file: gguf.path.clone(), found: architecture.to_string() });
    }
    if !KNOWN.contains(&architecture) {
        let found = architecture.to_string();
        return Err(LmError::UnknownArchitecture { file: gguf.path.clone(), found, known: format!("in GGUF {}", KNOWN.join(", ")) });
    }
    let mut config = Map::new();
    config.insert("model_type".into(), if architecture == "gemma3" { "gemma3_text" } else { architecture }.into());
    for (key, metadatum) in KEYS {
        if let Some(value) = get(metadatum) {
            config.insert(key.into(), value.clone());
        }
    }
    let vocabulary = gguf.shape("token_embd.weight").and_then(|shape| shape.first().copied());
    let vocabulary = vocabulary.ok_or_else(|| LmError::MissingTensor { file: gguf.path.clone(), tensor: "token_embd.weight".into() })?;
    config.insert("vocab_size".into(), vocabulary.into());
    config.insert("tie_word_embeddings".into(), gguf.shape("output.weight").is_none().into());
    let (width, heads) = (get("embedding_length").and_then(Value::as_u64), get("attention.head_count").and_then(Value::as_u64));
    let (Some(width), Some(heads)) = (width, heads.filter(|&heads| heads > 0)) else {
        return Err(wrong(&format!("{architecture}.embedding_length"), "or the number of heads is missing".into()));
    };
    let head_width = get("attention.key_length").and_then(Value::as_u64).unwrap_or(width / heads);
    match architecture {
        "gemma2" | "gemma3" => {
            let layers = get("block_count").and_then(Value::as_u64).unwrap_or_default();
            // The largest of each departs from 1/√head: 46 and 62 layers.
            let scalar = if (architecture, layers) == ("gemma2", 46) || (architecture, layers) == ("gemma3", 62) {
                width / heads
            } else {
                head_width
            };
            config.insert("query_pre_attn_scalar".into(), scalar.into());
            config.insert("hidden_activation".into(), "gelu_pytorch_tanh".into());
            if let Some(window) = get("attention.sliding_window") {
                config.insert("sliding_window".into(), window.clone());
            }
        }
        "gpt2" => {
            let names = [
                ("n_embd", "hidden_size"),
                ("n_head", "num_attention_heads"),
                ("n_layer", "num_hidden_layers"),
                ("n_inner", "intermediate_size"),
            ];
            for (theirs, common) in names.into_iter().chain([("n_positions", "max_position_embeddings")]) {
                if let Some(value) = config.remove(common) {
                    config.insert(theirs.into(), value);
                }
            }
        }
        _ => {}
    }
    if let Some(scaling) = scaling(gguf, architecture, head_width, &wrong)? {
        config.insert("rope_scaling".into(), scaling);
    }
    Ok(Value::Object(config))
}

/// The stretching of frequencies: by a factor, or by the table of Llama 3.
fn scaling(gguf: &Gguf, architecture: &str, head_width: u64, wrong: &dyn Fn(&str, String) -> LmError) -> Result<Option<Value>, LmError> {
    let get = |key: &str| gguf.metadata.get(&format!("{architecture}.{key}"));
    if gguf.shape("rope_freqs.weight").is_some() {
        let (_, factors) = gguf.read("rope_freqs.weight")?;
        let factor = factors.iter().copied().fold(1.0_f32, f32::max);
        let theta = get("rope.freq_base").and_then(Value::as_f64).unwrap_or(10_000.0);
        let turned = head_width as usize;
        let scaling = RopeScaling::Llama3 { factor: f64::from(factor), low: 1.0, high: 4.0, length: 8192.0 };
        let fits = turned / 2 == factors.len() && {
            let plain = Rope { theta, turned, scaling: RopeScaling::None }.frequencies();
            let scaled = Rope { theta, turned, scaling }.frequencies();
            plain.iter().zip(&scaled).zip(&factors).all(|((plain, scaled), &f)| (plain / scaled / f64::from(f) - 1.0).abs() < 1e-3)
        };
        if !fits {
            return Err(wrong("rope_freqs.weight", "holds frequencies that are not those of Llama 3; they are not supported".into()));
        }
        return Ok(Some(json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192
        })));
    }
    match get("rope.scaling.type").and_then(Value::as_str) {
        None | Some("none") => Ok(None),
        Some(kind) => Ok(Some(json!({ "rope_type": kind, "factor": get("rope.scaling.factor") }))),
    }
}

impl Checkpoint for Renamed {
    fn place(&self) -> &Path {
        &self.gguf.path
    }

    fn names(&self) -> Vec<String> {
        // Only tensors that no rule could ask for are of interest here, under whatever name.
        let table: Vec<&str> =
            if self.architecture == "gpt2" { &GPT2_NAMES[..] } else { &NAMES[..] }.iter().map(|(name, _)| *name).collect();
        let known = |name: &str| {
            let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
            let layer = stem.strip_prefix("blk.").and_then(|rest| rest.split('.').next());
            let pattern = layer.map_or(stem.to_string(), |layer| stem.replacen(&format!("blk.{layer}."), "blk.*.", 1));
            table.contains(&pattern.as_str()) || pattern == "blk.*.ffn_norm" || pattern == "rope_freqs"
        };
        self.gguf.names().filter(|name| !known(name)).map(str::to_string).collect()
    }

    fn read(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), LmError> {
        let missing = || LmError::MissingTensor { file: self.gguf.path.clone(), tensor: name.to_string() };
        let original = self.original(name).ok_or_else(missing)?;
        let (mut shape, mut values) = self.gguf.read(&original)?;
        let heads = match name {
            _ if self.architecture != "llama" => None,
            _ if name.contains("self_attn.q_proj") => Some(self.description.heads),
            _ if name.contains("self_attn.k_proj") => Some(self.description.kv_heads),
            _ => None,
        };
        if let Some(heads) = heads {
            values = halves(&values, heads, self.description.head_width);
        }
        if self.architecture.starts_with("gemma") && name.ends_with("norm.weight") {
            values.iter_mut().for_each(|gain| *gain -= 1.0);
        }
        if let ("gpt2", true, &[rows, columns]) = (self.architecture.as_str(), name.contains(".c_"), shape.as_slice()) {
            values =
                (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column))).map(|(r, c)| values[r * columns + c]).collect();
            shape.reverse();
        }
        Ok((shape, values))
    }
}

/// Rows of each head from interleaved pairs `(0, w/2), (1, w/2 + 1), …` back to `0, 1, …`.
fn halves(values: &[f32], heads: usize, head_width: usize) -> Vec<f32> {
    let inner = values.len() / (heads * head_width).max(1);
    let rows =
        (0..heads).flat_map(|head| (0..head_width).map(move |i| head * head_width + i % (head_width / 2) * 2 + i / (head_width / 2)));
    rows.flat_map(|row| values[row * inner..(row + 1) * inner].iter().copied()).collect()
}
