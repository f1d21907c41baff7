//! Tokenizers inside GGUF files equal the libraries that made them (`scripts/lm_fixtures.py`).

mod common;

use common::fixture;
use sememe_lm::{Gguf, Tokenizer};

#[test]
fn ids_equal_those_of_the_makers() {
    let json = include_str!("fixtures/tokenizers.json");
    let answers: serde_json::Value = serde_json::from_str(json).expect("the fixture is JSON");
    let answers = answers.as_object().expect("a kind each");
    assert_eq!(answers.len(), 5);
    for (kind, cases) in answers {
        let gguf = Gguf::open(&fixture(&format!("tokenizer_{kind}.gguf"))).unwrap_or_else(|error| panic!("{error}"));
        let tokenizer = Tokenizer::from_gguf(&gguf).unwrap_or_else(|error| panic!("{kind}: {error}"));
        for case in cases.as_array().into_iter().flatten() {
            let text = case["text"].as_str().unwrap_or_default();
            let expected: Vec<u32> =
                case["ids"].as_array().into_iter().flatten().filter_map(|id| id.as_u64()).map(|id| id as u32).collect();
            let got = tokenizer.encode(text).unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!(got, expected, "{kind}: {text:?}");
            let back = tokenizer.decode(&got).unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!(back, text.replace("<|end|>", ""), "{kind}");
        }
    }
}
