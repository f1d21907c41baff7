//! Real models, where `scripts/fetch_smollm2.sh` and `scripts/fetch_gemma3.sh` have put them: as good at predicting as in PyTorch, and fluent.

use std::path::Path;

use burn::tensor::Device;
use sememe_lm::{Tokenizer, Tokens, Transformer, load};

/// Thomas Jefferson and others, the Declaration of Independence (1776): in the public domain, and in every corpus.
const DECLARATION: &str = "We hold these truths to be self-evident, that all men are created equal, that they are endowed by their Creator \
    with certain unalienable Rights, that among these are Life, Liberty and the pursuit of Happiness. That to secure these rights, \
    Governments are instituted among Men, deriving their just powers from the consent of the governed.";
/// Written for this test, so that it can be in no corpus.
const TOWER: &str = "The Eiffel Tower is a wrought-iron lattice tower on the Champ de Mars in Paris, France. It is named after the engineer \
    Gustave Eiffel, whose company designed and built the tower for the World's Fair of 1889. At first many artists of the city criticised \
    its design, but it has since become a symbol of France, and millions of people climb it every year.";

fn model(file: &str, script: &str) -> Option<(Transformer, Tokenizer)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(file);
    if !file.is_file() {
        // Where the gate has fetched it, its absence is a failure.
        assert!(script.contains("gemma") || std::env::var_os("SEMEME_NEEDS_MODELS").is_none(), "{} is absent", file.display());
        eprintln!("SKIPPED: {} is absent; run {script}", file.display());
        return None;
    }
    Some(load(&file.display().to_string(), &Device::flex()).unwrap_or_else(|error| panic!("{error}")))
}

/// Cross-entropies of the texts equal those that PyTorch transformers finds for the same file.
fn predicts(model: &Transformer, tokenizer: &Tokenizer, expected: [f64; 2]) {
    for (text, expected) in [DECLARATION, TOWER].into_iter().zip(expected) {
        let ids = tokenizer.encode(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(tokenizer.decode(&ids).ok().as_deref(), Some(text));
        let nats = model.nats(&Tokens::one(ids)).unwrap_or_else(|error| panic!("{error}"));
        eprintln!("{:.4} nats a token over {} tokens: {text:.40}…", nats.mean(), nats.count());
        assert!((nats.mean() - expected).abs() < 1e-3, "{} against {expected}", nats.mean());
    }
}

#[test]
fn smollm2() {
    let Some((model, tokenizer)) = model("SmolLM2-135M-Instruct.Q4_1.gguf", "scripts/fetch_smollm2.sh") else { return };
    predicts(&model, &tokenizer, [1.0340, 2.2439]);
    assert_eq!(tokenizer.encode(" 12").ok().map(|ids| ids.len()), Some(3), "digits stand alone");
    let prompt = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n";
    let prompt = tokenizer.encode(prompt).unwrap_or_else(|error| panic!("{error}"));
    let stop = tokenizer.id("<|im_end|>").into_iter().collect::<Vec<_>>();
    let answer = model.generate(&prompt, 24, &stop).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(tokenizer.decode(&answer).ok().as_deref(), Some("The capital of France is Paris."));
}

#[test]
fn gemma3() {
    let Some((model, tokenizer)) = model("gemma-3-270m-q4_k_m.gguf", "scripts/fetch_gemma3.sh") else { return };
    predicts(&model, &tokenizer, [0.5308, 2.2659]);
    let prompt = tokenizer.encode("The capital of France is").unwrap_or_else(|error| panic!("{error}"));
    let answer = model.generate(&prompt, 12, &[]).unwrap_or_else(|error| panic!("{error}"));
    let answer = tokenizer.decode(&answer).unwrap_or_else(|error| panic!("{error}"));
    eprintln!("{answer}");
    assert!(answer.contains("capital"), "fluent, if not wise: {answer}");
}
