//! Contexts: documents as rows of token ids that a model sees, each for training or held out.
//!
//! A document is cut into pieces of at most `length` tokens, each of which
//! begins with the token that begins a text where the model has one. Documents
//! are not packed together: no token attends to another text. 64 neighbouring
//! contexts of a document are held out together, with probability
//! `test_fraction`, by a draw that depends on (seed, document, section) alone.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::Rng;
use sememe_lm::Tokenizer;
use sememe_truth::random::stream;

use super::{ActivationsError, HarvestConfig};
use crate::text::Documents;

/// Contexts that are held out together.
const SECTION: usize = 64;

/// A row of token ids.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Context {
    pub ids: Vec<u32>,
    pub is_test: bool,
}

/// The contexts of a stream of documents, in order.
pub(crate) struct Contexts {
    documents: Documents,
    tokenizer: Arc<Tokenizer>,
    prefix: Vec<u32>,
    length: usize,
    test_fraction: f64,
    seed: u64,
    /// Documents that were begun.
    document: usize,
    pending: VecDeque<Context>,
    /// Of the last document.
    bytes_per_token: f64,
}

impl Contexts {
    pub fn new(documents: Documents, tokenizer: &Arc<Tokenizer>, config: &HarvestConfig) -> Result<Self, ActivationsError> {
        let HarvestConfig { context_tokens: length, test_fraction, seed, .. } = *config;
        let (prefix, tokenizer) = (tokenizer.prefix()?, tokenizer.clone());
        Ok(Self { documents, tokenizer, prefix, length, test_fraction, seed, document: 0, pending: VecDeque::new(), bytes_per_token: 0.0 })
    }

    /// Where the stream stands: documents begun, and contexts of the last one that are still to come.
    pub fn place(&self) -> (usize, usize) {
        (self.document, self.pending.len())
    }

    /// Goes on from where another stream stood.
    pub fn go_to(&mut self, (documents, pending): (usize, usize)) -> Result<(), ActivationsError> {
        self.document = self.documents.skip_documents(documents.saturating_sub(1))?;
        if documents > 0 && self.next_document()? {
            while self.pending.len() > pending {
                self.pending.pop_front();
            }
        }
        Ok(())
    }

    /// Bytes of text that were handed out as contexts, about, and in all.
    pub fn bytes(&self) -> (u64, u64) {
        let pending: usize = self.pending.iter().map(|context| context.ids.len()).sum();
        let waiting = (self.bytes_per_token * pending as f64) as u64;
        (self.documents.bytes_read().saturating_sub(waiting), self.documents.bytes())
    }

    fn next_document(&mut self) -> Result<bool, ActivationsError> {
        let Some(document) = self.documents.next().transpose()? else { return Ok(false) };
        let number = self.document;
        self.document += 1;
        let ids = self.tokenizer.encode(&document.text)?;
        self.bytes_per_token = document.text.len() as f64 / ids.len().max(1) as f64;
        let own = ids.strip_prefix(self.prefix.as_slice()).unwrap_or(&ids);
        for (index, piece) in own.chunks(self.length - self.prefix.len().min(self.length - 1)).enumerate() {
            let mut draw = stream(self.seed, &format!("activations/test/{number}/{}", index / SECTION));
            let is_test = draw.random::<f64>() < self.test_fraction;
            let ids: Vec<u32> = self.prefix.iter().chain(piece).copied().collect();
            if ids.len() > 1 {
                self.pending.push_back(Context { ids, is_test });
            }
        }
        Ok(true)
    }
}

impl Iterator for Contexts {
    type Item = Result<Context, ActivationsError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(context) = self.pending.pop_front() {
                return Some(Ok(context));
            }
            match self.next_document() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
