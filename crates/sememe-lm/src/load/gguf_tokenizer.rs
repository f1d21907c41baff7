//! The tokenizer inside a GGUF file, as the `tokenizer.json` from which it was made.
//!
//! Byte-level BPE comes with its merges; which words are kept apart is known
//! by name (`tokenizer.ggml.pre`). SentencePiece comes with scores: two pieces
//! merge when their union is a piece, those of higher score first.
//!
//! # Source
//! llama.cpp, `src/llama-vocab.cpp`; transformers, `convert_slow_tokenizer.py` (merges from scores).

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::Gguf;
use crate::LmError;

const QWEN2_WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3_WORDS: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The text of a `tokenizer.json`, and the token with which every text begins, if any.
pub(crate) fn tokenizer_json(gguf: &Gguf) -> Result<(String, Option<u32>), LmError> {
    let wrong = |problem: String| LmError::Tokenizer { file: gguf.path.clone(), problem };
    let get = |key: &str| gguf.metadata.get(&format!("tokenizer.ggml.{key}"));
    let list = |key: &str| get(key).and_then(Value::as_array);
    let tokens = list("tokens").ok_or_else(|| wrong("`tokenizer.ggml.tokens` is missing; use a file with a tokenizer".into()))?;
    let tokens: Vec<&str> = tokens.iter().map(|token| token.as_str().unwrap_or_default()).collect();
    let vocabulary: Map<String, Value> = tokens.iter().enumerate().map(|(id, token)| (token.to_string(), id.into())).collect();
    // 3 marks control tokens, 4 tokens of the user's.
    let added: Vec<Value> = list("token_type")
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(id, kind)| kind.as_u64().filter(|kind| (3..=4).contains(kind)).map(|kind| (id, kind == 3)))
        .filter(|&(id, _)| id < tokens.len())
        .map(|(id, special)| {
            json!({"id": id, "content": tokens[id], "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": special})
        })
        .collect();
    let kind = get("model").and_then(Value::as_str).unwrap_or_default();
    let parts = match kind {
        "gpt2" => {
            let merges = list("merges").ok_or_else(|| wrong("`tokenizer.ggml.merges` is missing".into()))?;
            let merges: Vec<Value> =
                merges.iter().filter_map(|merge| merge.as_str()?.split_once(' ')).map(|(a, b)| json!([a, b])).collect();
            let pre = get("pre").and_then(Value::as_str).unwrap_or("gpt-2");
            byte_level(vocabulary, merges, pre).map_err(wrong)?
        }
        "llama" => {
            let scores = list("scores").ok_or_else(|| wrong("`tokenizer.ggml.scores` is missing".into()))?;
            let scores: Vec<f64> = scores.iter().map(|score| score.as_f64().unwrap_or_default()).collect();
            let is_prefixed = get("add_space_prefix").and_then(Value::as_bool).unwrap_or(true);
            pieces(vocabulary, merges_by_score(&tokens, &scores), is_prefixed)
        }
        other => return Err(wrong(format!("model `{other}` is not known; known are gpt2 (byte-level BPE) and llama (SentencePiece)"))),
    };
    let starts = get("add_bos_token").and_then(Value::as_bool).unwrap_or(kind == "llama");
    let first = get("bos_token_id").and_then(Value::as_u64).map(|id| id as u32).filter(|_| starts);
    let [normalizer, pre_tokenizer, decoder, model] = parts;
    let all = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": decoder, "model": model
    });
    Ok((all.to_string(), first))
}

/// Normalizer, pre-tokenizer, decoder and model of byte-level BPE.
fn byte_level(vocabulary: Map<String, Value>, merges: Vec<Value>, pre: &str) -> Result<[Value; 4], String> {
    let bytes = |words: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": words});
    let split = |words: &str| {
        let split = json!({"type": "Split", "pattern": {"Regex": words}, "behavior": "Isolated", "invert": false});
        json!({"type": "Sequence", "pretokenizers": [split, bytes(false)]})
    };
    let (normalizer, words) = match pre {
        "gpt-2" | "default" => (Value::Null, bytes(true)),
        "smollm" => {
            (Value::Null, json!({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, bytes(true)]}))
        }
        "llama-bpe" | "llama3" => (Value::Null, split(LLAMA3_WORDS)),
        "qwen2" => (json!({"type": "NFC"}), split(QWEN2_WORDS)),
        other => return Err(format!("`tokenizer.ggml.pre` is `{other}`; known are gpt-2, smollm, llama-bpe and qwen2")),
    };
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
        "fuse_unk": false, "byte_fallback": false, "ignore_merges": pre.starts_with("llama"), "vocab": vocabulary, "merges": merges
    });
    Ok([normalizer, words, bytes(true), model])
}

/// Normalizer, pre-tokenizer, decoder and model of SentencePiece's BPE.
fn pieces(vocabulary: Map<String, Value>, merges: Vec<Value>, is_prefixed: bool) -> [Value; 4] {
    let replace = |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let (mut normalizers, mut decoders) = (vec![], vec![replace("▁", " "), json!({"type": "ByteFallback"}), json!({"type": "Fuse"})]);
    if is_prefixed {
        normalizers.push(json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    normalizers.push(replace(" ", "▁"));
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
        "fuse_unk": true, "byte_fallback": true, "ignore_merges": false, "vocab": vocabulary, "merges": merges
    });
    let sequence = |kind: &str, parts: Vec<Value>| json!({"type": "Sequence", kind: parts});
    [sequence("normalizers", normalizers), Value::Null, sequence("decoders", decoders), model]
}

/// Every pair of pieces whose union is a piece, by falling score of the union.
fn merges_by_score(tokens: &[&str], scores: &[f64]) -> Vec<Value> {
    let ids: HashMap<&str, usize> = tokens.iter().enumerate().map(|(id, token)| (*token, id)).collect();
    let mut merges: Vec<(f64, usize, usize, usize)> = Vec::new();
    for (id, token) in tokens.iter().enumerate() {
        let splits = token.char_indices().skip(1).map(|(at, _)| token.split_at(at));
        let pairs = splits.filter_map(|(left, right)| Some((*ids.get(left)?, *ids.get(right)?)));
        merges.extend(pairs.map(|(left, right)| (scores.get(id).copied().unwrap_or_default(), id, left, right)));
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then((a.2, a.3).cmp(&(b.2, b.3))));
    merges.into_iter().map(|(_, _, left, right)| json!([tokens[left], tokens[right]])).collect()
}
