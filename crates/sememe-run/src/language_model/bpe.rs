//! A tokenizer of the text's own: byte pairs, merged in order of their frequency within words.
//!
//! Words are cut by GPT-2's pattern, bytes stand for themselves, so that every text has tokens and comes back as it was.
//!
//! # Source
//! Sennrich et al. 2016, arXiv 1508.07909; bytes and pattern: Radford et al. 2019, *Language models are unsupervised multitask
//! learners*.

use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer};

/// The token between documents; its id is 0.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// `tokenizer.json` of a tokenizer with at most `vocabulary` tokens, learned from the texts.
///
/// # Errors
/// Text from which nothing can be learned.
pub(super) fn learn(vocabulary: usize, texts: impl Iterator<Item = String> + Send) -> Result<String, tokenizers::Error> {
    let mut tokenizer = Tokenizer::new(BPE::default());
    let bytes = ByteLevel::new(false, false, true);
    tokenizer.with_pre_tokenizer(Some(bytes)).with_decoder(Some(bytes));
    let trainer = BpeTrainer::builder()
        .vocab_size(vocabulary)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(vec![AddedToken::from(END_OF_TEXT, true)])
        .build();
    tokenizer.train(&mut TrainerWrapper::BpeTrainer(trainer), texts)?;
    tokenizer.to_string(false)
}

/// What Hugging Face's libraries want beside `tokenizer.json`.
pub(super) fn tokenizer_config(context: usize) -> serde_json::Value {
    serde_json::json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "unk_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": false,
        "model_max_length": context,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In "ab ab abc" the commonest pair is "ab", then " ab" (twice: " ab", " abc").
    #[test]
    fn merges_by_hand() {
        let json = learn(259, ["ab ab abc".to_string()].into_iter()).unwrap_or_else(|error| panic!("{error}"));
        let tokenizer: Tokenizer = json.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(tokenizer.get_vocab_size(true), 259);
        assert_eq!(tokenizer.token_to_id(END_OF_TEXT), Some(0));
        let encoding = tokenizer.encode("ab ab<|endoftext|>abé", false).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(encoding.get_tokens(), ["ab", "Ġab", END_OF_TEXT, "ab", "Ã", "©"]);
        assert!(tokenizer.decode(encoding.get_ids(), false).is_ok_and(|text| text == "ab ab<|endoftext|>abé"));
    }
}
