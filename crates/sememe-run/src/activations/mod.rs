//! Activations of a language model: harvested from text, kept in shards or passed on live, and read in batches.
//!
//! | file of the folder | what |
//! |---|---|
//! | `activations.json` | model and its fingerprint, hooks, what was left out, the shards, where to go on |
//! | `train-*.safetensors` | shuffled tokens: one matrix `[T, width]` a hook, `token_ids`, `contexts`, `positions` `[T]` |
//! | `test-*.safetensors` | held-out tokens in the order of the text, the same tensors |
//! | `contexts-*.safetensors` | the token ids of every context, one after the other, and where each begins |
//! | `buffer.safetensors` | the shuffle buffer, while the harvest is not finished |

mod batches;
mod buffer;
mod config;
mod contexts;
mod harvest;
mod live;
mod manifest;
mod reader;
mod shard;

use std::path::PathBuf;

use sememe_lm::{Hook, LmError};
use thiserror::Error;

use crate::text::TextError;

pub(crate) use batches::fill_row;
pub use batches::{Hooks, ShardBatches};
pub use config::HarvestConfig;
pub use harvest::{Harvested, harvest};
pub use live::LiveBatches;
pub use manifest::{Activations, HookInfo, LeftOut, Manifest};
pub use shard::{Chunk, Precision};

/// Why activations could not be harvested or read.
#[derive(Debug, Error)]
pub enum ActivationsError {
    /// The model.
    #[error(transparent)]
    Lm(#[from] LmError),
    /// The text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Reading or writing failed.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No activations here.
    #[error("{0}: no activations (there is no activations.json); give the folder that `sememe harvest` wrote")]
    NoActivations(PathBuf),
    /// There is something already.
    #[error(
        "{0}: the folder exists and is not empty; use --resume to go on with its harvest, --overwrite to replace it, or another folder"
    )]
    Exists(PathBuf),
    /// A file that does not hold what the manifest says.
    #[error("{path}: {message}; the file is damaged, harvest again")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Activations that another model, or another config, gave.
    #[error("{path}: {message}")]
    Mismatch {
        /// Where.
        path: PathBuf,
        /// What differs, and what to do.
        message: String,
    },
    /// A number that is not finite.
    #[error("hook `{hook}`, context {context}, position {position}: the activation is {problem}")]
    NotFinite {
        /// The hook.
        hook: Hook,
        /// The context's number.
        context: u32,
        /// The token's place in it.
        position: u32,
        /// What it is, and what to do.
        problem: String,
    },
    /// A setting that makes no sense.
    #[error("harvest: `{key}` is {got}; {expected}")]
    Setting {
        /// The key.
        key: &'static str,
        /// Its value.
        got: String,
        /// What it may be.
        expected: String,
    },
    /// The text gave nothing.
    #[error("{0}")]
    Empty(String),
}

pub(crate) fn at<T>(path: &std::path::Path, result: std::io::Result<T>) -> Result<T, ActivationsError> {
    result.map_err(|source| ActivationsError::Io { path: path.into(), source })
}
