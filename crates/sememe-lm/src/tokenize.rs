//! Text to token ids and back.

use std::path::{Path, PathBuf};

use crate::LmError;
use crate::load::{Gguf, tokenizer_json};

/// A tokenizer, from `tokenizer.json` or from inside a GGUF file.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Put before every text, where the tokenizer does not do so itself.
    first: Option<u32>,
    file: PathBuf,
}

impl Tokenizer {
    /// From a `tokenizer.json`.
    ///
    /// # Errors
    /// A file that is missing or not understood.
    pub fn from_file(file: &Path) -> Result<Self, LmError> {
        let bytes = std::fs::read(file).map_err(|source| LmError::File { file: file.to_path_buf(), source })?;
        Self::from_bytes(&bytes, None, file)
    }

    /// From the text of a `tokenizer.json`; `file` is for messages.
    ///
    /// # Errors
    /// A text that is not understood.
    pub fn from_json(json: &str, file: &Path) -> Result<Self, LmError> {
        Self::from_bytes(json.as_bytes(), None, file)
    }

    /// From the metadata of a GGUF file.
    ///
    /// # Errors
    /// Metadata that are missing, or of a kind that is not known.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, LmError> {
        let (json, first) = tokenizer_json(gguf)?;
        Self::from_bytes(json.as_bytes(), first, &gguf.path)
    }

    fn from_bytes(bytes: &[u8], first: Option<u32>, file: &Path) -> Result<Self, LmError> {
        let inner = tokenizers::Tokenizer::from_bytes(bytes)
            .map_err(|error| LmError::Tokenizer { file: file.to_path_buf(), problem: error.to_string() })?;
        Ok(Self { inner, first, file: file.to_path_buf() })
    }

    fn wrong(&self, error: &tokenizers::Error) -> LmError {
        LmError::Tokenizer { file: self.file.clone(), problem: error.to_string() }
    }

    /// Token ids of a text, with the token that begins a text where the model has one.
    ///
    /// # Errors
    /// A text that the tokenizer cannot represent.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, LmError> {
        let encoding = self.inner.encode_fast(text, true).map_err(|error| self.wrong(&error))?;
        Ok(self.first.into_iter().chain(encoding.get_ids().iter().copied()).collect())
    }

    /// What stands before every text: the token that begins one, where the model has it.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn prefix(&self) -> Result<Vec<u32>, LmError> {
        let of_nothing = self.encode("")?;
        let other = self.encode("a")?;
        // A tokenizer may end texts as well, which is no prefix.
        Ok(of_nothing.iter().zip(&other).take_while(|(a, b)| a == b).map(|(id, _)| *id).collect())
    }

    /// Whether a token controls rather than stands for text.
    pub fn is_special(&self, id: u32) -> bool {
        self.first == Some(id) || self.inner.get_added_tokens_decoder().get(&id).is_some_and(|token| token.special)
    }

    /// The piece of text that a token stands for, spaces and line breaks included.
    pub fn piece(&self, id: u32) -> String {
        self.inner.decode(&[id], false).unwrap_or_default()
    }

    /// The text of token ids, without control tokens.
    ///
    /// # Errors
    /// Ids that the tokenizer does not have.
    pub fn decode(&self, ids: &[u32]) -> Result<String, LmError> {
        self.inner.decode(ids, true).map_err(|error| self.wrong(&error))
    }

    /// The text of one token as it stands in the vocabulary's terms, for display.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The id of a token by its exact name, such as `<|im_end|>`.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Entries of the vocabulary, added tokens included.
    pub fn vocabulary(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Writes a `tokenizer.json`.
    ///
    /// # Errors
    /// A path that cannot be written.
    pub fn save(&self, file: &Path) -> Result<(), LmError> {
        self.inner.save(file, false).map_err(|error| LmError::Tokenizer { file: file.to_path_buf(), problem: error.to_string() })
    }
}
