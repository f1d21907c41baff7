//! The text of a run: documents to train on and documents held out, and both as tokens.
//!
//! The stream to train on is `⟨end⟩ document ⟨end⟩ document …`; a held-out
//! document begins with the end of text before it, so that its first token is
//! predicted too.

use std::path::PathBuf;

use rand::Rng;
use rayon::prelude::*;
use sememe_lm::Tokenizer;
use sememe_truth::random::stream;
use serde::{Deserialize, Serialize};

use super::bpe::END_OF_TEXT;
use super::config::TextConfig;
use crate::error::RunError;
use crate::text::{self, Document, TextError};

/// The documents of a run, before they are tokens.
pub(super) struct Text<'a> {
    config: &'a TextConfig,
    seed: u64,
    held_out: Vec<Document>,
}

impl<'a> Text<'a> {
    /// Reads the held-out documents; the others are read as they are needed.
    pub fn read(config: &'a TextConfig, seed: u64) -> Result<Self, TextError> {
        let key = config.key.as_deref();
        let held_out = match config.held_out_fraction {
            None => text::open(&config.held_out_files, key)?.collect::<Result<_, _>>()?,
            Some(fraction) => {
                let chosen = text::open(&config.files, key)?.enumerate().filter(|(index, _)| is_held_out(seed, *index, fraction));
                chosen.map(|(_, document)| document).collect::<Result<_, _>>()?
            }
        };
        Ok(Self { config, seed, held_out })
    }

    /// The text to train on, a document or what is left of it at a time.
    pub fn to_train_on(&self) -> Result<impl Iterator<Item = Result<String, TextError>> + Send + '_, TextError> {
        let documents = text::open(&self.config.files, self.config.key.as_deref())?;
        let fraction = self.config.held_out_fraction;
        let kept = documents.enumerate().filter(move |(index, _)| !fraction.is_some_and(|f| is_held_out(self.seed, *index, f)));
        Ok(kept.flat_map(|(_, document)| match document {
            Ok(document) => self.without_held_out(document.text).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        }))
    }

    /// The parts of a text around every held-out document in it.
    fn without_held_out(&self, text: String) -> Vec<String> {
        let mut parts = vec![text];
        // A fraction of the documents is left out whole.
        if self.config.held_out_fraction.is_none() {
            for held_out in self.held_out.iter().map(|document| document.text.trim()).filter(|held_out| !held_out.is_empty()) {
                if parts.iter().any(|part| part.contains(held_out)) {
                    parts = parts.iter().flat_map(|part| part.split(held_out)).map(str::to_string).collect();
                }
            }
        }
        parts.retain(|part| !part.trim().is_empty());
        parts
    }
}

/// Whether the document of this number is held out: a function of the seed and the number alone.
fn is_held_out(seed: u64, index: usize, fraction: f64) -> bool {
    stream(seed, &format!("held out/{index}")).random::<f64>() < fraction
}

/// A document that is not trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldOut {
    /// The end of text, then the document's tokens.
    pub tokens: Vec<u32>,
    /// Bytes of its text.
    pub bytes: usize,
    /// The file that it is from.
    pub file: PathBuf,
}

impl HeldOut {
    /// The document as tokens.
    ///
    /// # Errors
    /// A tokenizer without an end of text.
    pub fn new(document: &Document, tokenizer: &Tokenizer) -> Result<Self, RunError> {
        let tokens = [end_of_text(tokenizer)?].into_iter().chain(tokenizer.encode(&document.text)?).collect();
        Ok(Self { tokens, bytes: document.text.len(), file: document.file.clone() })
    }

    /// Rows of at most `context` tokens that share one with the next: each token but the first is predicted once.
    pub fn rows(&self, context: usize) -> impl Iterator<Item = &[u32]> {
        let last = self.tokens.len() - 1;
        (0..last).step_by(context - 1).map(move |start| &self.tokens[start..=(start + context - 1).min(last)])
    }
}

fn end_of_text(tokenizer: &Tokenizer) -> Result<u32, RunError> {
    tokenizer
        .id(END_OF_TEXT)
        .ok_or_else(|| RunError::Data(format!("the tokenizer has no token `{END_OF_TEXT}`; use the one that was trained with the model")))
}

/// The tokens of a run.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// The stream to train on.
    pub train: Vec<u32>,
    /// What the model is evaluated on.
    pub held_out: Vec<HeldOut>,
    /// How much there is.
    pub summary: Summary,
}

/// `corpus.json`: how much text a run has, and of which tokens; it goes on only with the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Documents, or parts of them, to train on.
    pub documents: usize,
    /// Bytes of their text.
    pub bytes: usize,
    /// Tokens of the stream.
    pub tokens: usize,
    /// Documents held out.
    pub held_out_documents: usize,
    /// Bytes of their text.
    pub held_out_bytes: usize,
    /// Tokens of theirs that are predicted.
    pub held_out_tokens: usize,
    /// FNV-1a of all tokens.
    pub hash: String,
}

/// Documents that are cut into tokens at a time.
const AT_A_TIME: usize = 64;

impl Corpus {
    /// The text as tokens.
    ///
    /// # Errors
    /// Text that cannot be read, or none.
    pub(super) fn read(text: &Text<'_>, tokenizer: &Tokenizer) -> Result<Self, RunError> {
        let end = end_of_text(tokenizer)?;
        let (mut train, mut documents, mut bytes) = (Vec::new(), 0, 0);
        let mut source = text.to_train_on()?;
        loop {
            let some: Vec<String> = source.by_ref().take(AT_A_TIME).collect::<Result<_, _>>()?;
            if some.is_empty() {
                break;
            }
            documents += some.len();
            bytes += some.iter().map(String::len).sum::<usize>();
            let encoded: Vec<Vec<u32>> = some.par_iter().map(|text| tokenizer.encode(text)).collect::<Result<_, _>>()?;
            for tokens in encoded {
                train.push(end);
                train.extend(tokens);
            }
        }
        let held_out: Vec<HeldOut> =
            text.held_out.par_iter().map(|document| HeldOut::new(document, tokenizer)).collect::<Result<_, _>>()?;
        let hash = std::iter::once(&train)
            .chain(held_out.iter().map(|one| &one.tokens))
            .flatten()
            .fold(FNV_START, |hash, &token| fnv(hash, token));
        let summary = Summary {
            documents,
            bytes,
            tokens: train.len(),
            held_out_documents: held_out.len(),
            held_out_bytes: held_out.iter().map(|one| one.bytes).sum(),
            held_out_tokens: held_out.iter().map(|one| one.tokens.len() - 1).sum(),
            hash: format!("{hash:016x}"),
        };
        Ok(Self { train, held_out, summary })
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, token: u32) -> u64 {
    token.to_le_bytes().iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_predict_every_token_once() {
        let document = HeldOut { tokens: (0..8).collect(), bytes: 0, file: PathBuf::new() };
        let rows: Vec<Vec<u32>> = document.rows(4).map(<[u32]>::to_vec).collect();
        assert_eq!(rows, [vec![0, 1, 2, 3], vec![3, 4, 5, 6], vec![6, 7]]);
        assert_eq!(document.rows(8).count(), 1);
        let empty = HeldOut { tokens: vec![0], ..document };
        assert_eq!(empty.rows(4).count(), 0);
    }

    #[test]
    fn held_out_text_is_cut_out() {
        let config = TextConfig::default();
        let document = |text: &str| Document { text: text.into(), file: PathBuf::new(), row: 0 };
        let text = Text { config: &config, seed: 0, held_out: vec![document("b c.\n"), document(" ")] };
        assert_eq!(text.without_held_out("a b c. d b c.".into()), ["a ", " d "]);
        assert_eq!(text.without_held_out("a".into()), ["a"]);
        assert!(text.without_held_out("\nb c.\n".into()).is_empty());
    }

    #[test]
    fn a_fraction_of_the_documents_is_held_out() {
        let chosen = |seed| (0..2000).filter(|&index| is_held_out(seed, index, 0.1)).collect::<Vec<_>>();
        assert!((150..250).contains(&chosen(1).len()), "{}", chosen(1).len());
        assert!(chosen(1) == chosen(1) && chosen(1) != chosen(2));
    }
}
