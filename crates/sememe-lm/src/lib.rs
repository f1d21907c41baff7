//! Hooked transformers: read and replace activations at every layer, from Hugging Face folders and GGUF files.
//!
//! A model of any family is one [`Transformer`], whose parts a [`Description`]
//! switches on and off; a family ([`family`]) is only a reading of its
//! `config.json` and a table of tensor names.
//!
//! ```no_run
//! use burn::tensor::Device;
//! use sememe_lm::{Hook, Place, Tokens, load};
//!
//! let (model, tokenizer) = load("models/SmolLM2-135M-Instruct.Q4_1.gguf", &Device::flex())?;
//! let tokens = Tokens::one(tokenizer.encode("The Eiffel Tower")?);
//! // Layers after 12 are not computed.
//! let hidden = model.read(&tokens, &[Hook::new(12, Place::MlpHidden)])?;
//! # Ok::<(), sememe_lm::LmError>(())
//! ```

mod describe;
mod error;
pub mod family;
mod hook;
mod layer;
mod load;
mod model;
mod parts;
mod save;
mod score;
mod tokenize;
mod tokens;
mod weights;

pub use describe::{Config, DeltaSizes, Description, MixerKind, NormKind};
pub use error::LmError;
pub use hook::{Hook, Intervene, Place, Untouched};
pub use layer::{Rope, RopeScaling};
pub use load::{Gguf, describe, load, load_model, resolve};
pub use model::Transformer;
pub use parts::{AttentionParts, MlpParts, NormParts};
pub use save::{Precision, save};
pub use score::Nats;
pub use tokenize::Tokenizer;
pub use tokens::Tokens;
