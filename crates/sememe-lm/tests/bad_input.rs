//! What is wrong with a user's files or tokens is said in one line: what, where, what to do.

mod common;

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use common::fixture;
use sememe_lm::{Gguf, Hook, Place, Tokens, load, load_model};

struct Scratch(PathBuf);

impl Scratch {
    /// A copy of a checkpoint that may be spoilt.
    fn of(name: &str, label: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sememe-lm-bad-{}-{label}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a scratch folder");
        for entry in std::fs::read_dir(fixture(name)).expect("the fixture").flatten() {
            std::fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
        }
        Self(folder)
    }

    fn config(self, edit: impl Fn(&mut serde_json::Value)) -> Self {
        let file = self.0.join("config.json");
        let mut config = serde_json::from_slice(&std::fs::read(&file).expect("config")).expect("JSON");
        edit(&mut config);
        std::fs::write(file, config.to_string()).expect("written");
        self
    }

    fn bytes(self, name: &str, edit: impl Fn(&mut Vec<u8>)) -> Self {
        let file = self.0.join(name);
        let mut bytes = std::fs::read(&file).expect("bytes");
        edit(&mut bytes);
        std::fs::write(file, bytes).expect("written");
        self
    }

    fn without(self, name: &str) -> Self {
        std::fs::remove_file(self.0.join(name)).expect("removed");
        self
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn message(path: &Path) -> String {
    match load_model(&path.display().to_string(), &Device::flex()) {
        Ok(_) => "no error".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn folders() {
    let cases: Vec<(Scratch, &[&str])> = vec![
        (
            Scratch::of("qwen3", "arch").config(|c| c["model_type"] = "bert".into()),
            &["config.json", "unknown architecture `bert`", "llama", "gpt2"],
        ),
        (Scratch::of("qwen3", "moe").config(|c| c["model_type"] = "qwen3_moe".into()), &["qwen3_moe", "mixture of experts", "dense"]),
        (Scratch::of("llama3", "experts").config(|c| c["num_local_experts"] = 8.into()), &["mixture of experts"]),
        (
            Scratch::of("qwen3", "key").config(|c| c["hidden_size"] = "wide".into()),
            &["config.json", "`hidden_size`", "\"wide\"", "whole number"],
        ),
        (Scratch::of("qwen3", "zero").config(|c| c["num_attention_heads"] = 0.into()), &["`num_attention_heads`", "above 0"]),
        (Scratch::of("qwen3", "kv").config(|c| c["num_key_value_heads"] = 3.into()), &["`num_key_value_heads`", "does not divide"]),
        (
            Scratch::of("qwen3", "types").config(|c| c["layer_types"] = serde_json::json!(["full_attention"])),
            &["`layer_types`", "1 entries for 2"],
        ),
        (Scratch::of("llama3", "act").config(|c| c["hidden_act"] = "sine".into()), &["`hidden_act`", "`sine`", "gelu"]),
        (Scratch::of("llama3", "rope").config(|c| c["rope_parameters"]["rope_type"] = "yarn".into()), &["rope_type", "`yarn`", "llama3"]),
        (Scratch::of("llama3", "width").config(|c| c["intermediate_size"] = 25.into()), &["gate_proj", "[24, 16]", "[25, 16]"]),
        (Scratch::of("llama3", "deep").config(|c| c["num_hidden_layers"] = 3.into()), &["`model.layers.2", "missing"]),
        (Scratch::of("llama3", "shallow").config(|c| c["num_hidden_layers"] = 1.into()), &["`model.layers.1", "belongs to no part"]),
        (Scratch::of("llama3", "json").bytes("config.json", |b| b.truncate(20)), &["config.json", "not JSON"]),
        (Scratch::of("llama3", "cut").bytes("model.safetensors", |b| b.truncate(b.len() - 100)), &["model.safetensors", "cut short"]),
        (Scratch::of("llama3", "tiny").bytes("model.safetensors", |b| b.truncate(5)), &["too few"]),
        (Scratch::of("llama3", "noise").bytes("model.safetensors", |b| b.fill(0xff)), &["no safetensors file"]),
        (
            Scratch::of("llama3", "int").bytes("model.safetensors", |b| {
                let at = b.windows(6).position(|w| w == b"\"BF16\"").expect("a dtype");
                b[at..at + 6].copy_from_slice(b"\"I16\" ");
            }),
            &["stored as I16", "BF16"],
        ),
        (Scratch::of("llama3", "none").without("model.safetensors"), &["`model.safetensors` is missing"]),
        (Scratch::of("qwen2", "shard").without("model-00002-of-00002.safetensors"), &["model-00002-of-00002.safetensors", "missing"]),
        (Scratch::of("llama3", "empty").without("config.json"), &["neither `config.json` nor"]),
    ];
    for (scratch, parts) in cases {
        let message = message(&scratch.0);
        for part in parts {
            assert!(message.contains(part), "`{part}` is not in: {message}");
        }
        assert!(!message.contains('\n'), "one line: {message}");
    }
}

#[test]
fn paths_and_names() {
    assert!(message(Path::new("/no/such/model")).contains("no such file or folder"));
    let message = message(Path::new("hf:nobody/nothing"));
    assert!(message.contains("hf download nobody/nothing"), "{message}");
    let Err(error) = load(&fixture("llama3").display().to_string(), &Device::flex()) else { panic!("there is no tokenizer") };
    assert!(error.to_string().contains("tokenizer.json"), "{error}");
}

#[test]
fn gguf_files() {
    let whole = std::fs::read(fixture("llama.gguf")).expect("the fixture");
    let file = std::env::temp_dir().join(format!("sememe-lm-bad-{}.gguf", std::process::id()));
    let check = |bytes: &[u8], part: &str| {
        std::fs::write(&file, bytes).expect("written");
        let message = message(&file);
        assert!(message.contains(part), "`{part}` is not in: {message}");
    };
    let edited = |from: &[u8], to: &[u8]| {
        let mut bytes = whole.clone();
        let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|&at| &bytes[at..at + from.len()] == from).collect();
        places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
        bytes
    };
    check(b"PK\x03\x04 a zip file", "no GGUF file");
    check(&whole[..3], "ends at byte");
    check(&whole[..100], "it ends");
    check(&whole[..whole.len() - 64], "cut short");
    check(&edited(b"GGUF\x03", b"GGUF\x09"), "version 9");
    check(&edited(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0mamba"), "unknown architecture `mamba`");
    check(&edited(b"blk.0.attn_q.weight", b"blk.0.attn_x.weight"), "`blk.0.attn_q.weight` is missing");
    // 30 is BF16; 16 a format that is not read.
    check(&edited(b"\x1e\0\0\0", b"\x10\0\0\0"), "ggml type 16");
    // Every prefix and many a flipped byte of the header is refused or read, never a crash.
    for end in 0..whole.len().min(3000) {
        std::fs::write(&file, &whole[..end]).expect("written");
        assert!(Gguf::open(&file).is_err() || end > 1000);
    }
    for at in (0..1500).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xa5;
        std::fs::write(&file, &bytes).expect("written");
        let _ = message(&file);
    }
    let _ = std::fs::remove_file(&file);
}

#[test]
fn tokens_and_hooks() {
    let model = load_model(&fixture("gpt2").display().to_string(), &Device::flex()).unwrap_or_else(|error| panic!("{error}"));
    let message = |tokens: &Tokens| model.logits(tokens).map(|_| ()).map_err(|error| error.to_string());
    assert!(message(&Tokens::one(vec![1, 64])).is_err_and(|message| message.contains("token 64") && message.contains("vocabulary of 64")));
    assert!(message(&Tokens::one(vec![1; 33])).is_err_and(|message| message.contains("33 tokens") && message.contains("32 positions")));
    assert!(message(&Tokens::one(vec![])).is_err_and(|message| message.contains("no tokens")));
    let read = model.read(&Tokens::one(vec![1]), &[Hook::new(2, Place::MlpOut)]);
    assert!(read.is_err_and(|error| error.to_string().contains("`2.mlp_out`: the model has layers 0 to 1")));
}
