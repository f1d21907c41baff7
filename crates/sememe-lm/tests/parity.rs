//! Logits and every hook of every family equal those of PyTorch `transformers` on tiny random checkpoints (`scripts/lm_fixtures.py`).

mod common;

use burn::tensor::{Device, Tensor};
use common::{difference, expected, fixture};
use sememe_lm::{Hook, Place, load_model};

/// Checkpoints in folders, and how many hooks each comes with.
const FOLDERS: [(&str, usize); 13] = [
    ("llama3", 14),
    ("smollm", 0),
    ("mistral", 0),
    ("qwen2", 0),
    ("qwen3", 14),
    ("qwen3_5", 14),
    ("qwen3_next", 0),
    ("gemma", 0),
    ("gemma2", 14),
    ("gemma3", 14),
    ("gpt2", 14),
    ("neox", 14),
    ("neox_sequential", 0),
];
const CLOSE: f32 = 5e-6;

fn check(name: &str, model_path: &str, answers: &str, hooks: usize, device: &Device) {
    let expected = expected(answers);
    let path = fixture(model_path);
    let model = load_model(&path.display().to_string(), device).unwrap_or_else(|error| panic!("{name}: {error}"));
    let logits = model.logits(&expected.tokens).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut worst = Vec::new();
    let mut seen = 0;
    for (key, tensor) in &expected.tensors {
        let got: Tensor<3> = if key == "logits" {
            logits.clone()
        } else {
            seen += 1;
            let hook: Hook = key.parse().unwrap_or_else(|error| panic!("{error}"));
            model.read(&expected.tokens, &[hook]).unwrap_or_else(|error| panic!("{name}: {error}")).remove(0)
        };
        worst.push((difference(got, tensor, &expected.tokens), key.clone()));
    }
    assert_eq!(seen, hooks, "{name}: hooks in the fixture");
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    assert!(worst[0].0 < CLOSE, "{name}: {worst:?}");
}

#[test]
fn every_family_equals_transformers() {
    for (name, hooks) in FOLDERS {
        check(name, name, &format!("{name}/expected.safetensors"), hooks, &Device::flex());
    }
}

/// The path that is taken for training, by ordinary tensor operations.
#[test]
fn every_family_equals_transformers_with_autodiff() {
    for (name, hooks) in FOLDERS {
        check(name, name, &format!("{name}/expected.safetensors"), hooks, &Device::flex().autodiff());
    }
}

#[test]
fn gguf_equals_transformers() {
    check("llama.gguf", "llama.gguf", "llama_gguf_expected.safetensors", 0, &Device::flex());
    check("gemma3.gguf", "gemma3.gguf", "gemma3_gguf_expected.safetensors", 0, &Device::flex());
    check("gpt2.gguf", "gpt2.gguf", "gpt2/expected.safetensors", 14, &Device::flex());
}

/// A hook's own value put back changes nothing; 0 in place of both parts of a layer makes it the identity.
#[test]
fn what_a_hook_returns_is_what_the_model_goes_on_with() {
    for (name, _) in FOLDERS {
        let expected = expected(&format!("{name}/expected.safetensors"));
        let model = load_model(&fixture(name).display().to_string(), &Device::flex()).unwrap_or_else(|error| panic!("{error}"));
        let mut seen = Vec::new();
        let mut same = |hook: Hook, value: Tensor<3>| {
            seen.push(hook);
            value
        };
        let logits = model.logits_with(&expected.tokens, &mut same).unwrap_or_else(|error| panic!("{error}"));
        assert!(difference(logits, &expected.tensors["logits"], &expected.tokens) < CLOSE);
        assert_eq!(seen.len(), 7 * model.description().layers());
        assert!(seen.is_sorted(), "{name}: hooks are visited in their order");

        let mut muted = |hook: Hook, value: Tensor<3>| {
            if matches!(hook.place, Place::AttnOut | Place::MlpOut) { value.zeros_like() } else { value }
        };
        let first = model.read(&expected.tokens, &[Hook::new(0, Place::ResidPre)]).unwrap_or_else(|error| panic!("{error}")).remove(0);
        let last = model.forward(&expected.tokens, None, &mut muted).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(first.to_data(), last.to_data(), "{name}");
    }
}

/// Nothing after the last wanted hook is computed, and a pass can be taken up again from any layer.
#[test]
fn stops_and_resumes() {
    let expected = expected("llama3/expected.safetensors");
    let model = load_model(&fixture("llama3").display().to_string(), &Device::flex()).unwrap_or_else(|error| panic!("{error}"));
    let until = Hook::new(0, Place::MlpHidden);
    let mut last = None;
    let mut watch = |hook: Hook, value: Tensor<3>| {
        last = Some(hook);
        value
    };
    let hidden = model.forward(&expected.tokens, Some(until), &mut watch).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(last, Some(until));
    assert_eq!(hidden.dims()[2], model.description().width_at(Place::MlpHidden));

    let middle = model.read(&expected.tokens, &[Hook::new(1, Place::ResidPre)]).unwrap_or_else(|error| panic!("{error}")).remove(0);
    let resumed = model.resume(middle, 1, &mut sememe_lm::Untouched).unwrap_or_else(|error| panic!("{error}"));
    let whole = model.forward(&expected.tokens, None, &mut sememe_lm::Untouched).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(resumed.to_data(), whole.to_data());
}

/// Cross-entropy from the expected logits, token by token, with padding left out.
#[test]
fn nats_are_those_of_the_logits() {
    let expected = expected("gemma2/expected.safetensors");
    let model = load_model(&fixture("gemma2").display().to_string(), &Device::flex()).unwrap_or_else(|error| panic!("{error}"));
    let nats = model.nats(&expected.tokens).unwrap_or_else(|error| panic!("{error}"));
    let (shape, logits) = &expected.tensors["logits"];
    let lengths: Vec<usize> = nats.per_token.iter().map(Vec::len).collect();
    assert_eq!(lengths, [8, 4]);
    for (row, nats) in nats.per_token.iter().enumerate() {
        for (t, &got) in nats.iter().enumerate() {
            let at = (row * shape[1] + t) * shape[2];
            let logits: Vec<f64> = logits[at..at + shape[2]].iter().map(|&x| f64::from(x)).collect();
            let target = expected.tokens.ids()[row * shape[1] + t + 1] as usize;
            let by_hand = logits.iter().map(|x| x.exp()).sum::<f64>().ln() - logits[target];
            assert!((f64::from(got) - by_hand).abs() < 1e-4, "{got} against {by_hand}");
        }
    }
}
