//! Runs that train a small transformer on the user's own text, from a tokenizer of their own to a folder that other programs open.
//!
//! - `corpus`: documents, split and cut into tokens; `bpe` learns the tokens.
//! - `run`: the loop; `batch` says which tokens a step sees.
//! - `evaluate`: nats on held-out text, beside those of `baseline`.
//! - `sample`, `page`: continuations, and the report.

pub mod baseline;
mod batch;
mod bpe;
mod config;
mod corpus;
mod evaluate;
mod page;
mod run;
mod sample;

pub use bpe::END_OF_TEXT;
pub use config::{Config, TextConfig, TrainingConfig, TransformerConfig};
pub use corpus::{Corpus, HeldOut};
pub use evaluate::{Evaluation, Line, Sample, held_out_nats};
pub use run::{evaluate_again, train};
