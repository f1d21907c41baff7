//! Runs: the only place with a disk — configs, data, observers of the loop, run folders, checkpoints and reports.
//!
//! One folder a kind of run:
//!
//! - [`generative`]: generators of data, with penalties on their Jacobian.
//! - [`dictionary`]: dictionaries of a language model's activations.
//! - [`pair`]: two dictionaries around a layer, with a penalty on the Jacobian between their latents.
//! - [`language_model`]: small transformers on text.
//!
//! What they share:
//!
//! - [`config`]: what a recipe says, checked once.
//! - [`source`], [`text`], [`activations`]: arrays and texts of the user's own, and what a language model makes of text.
//! - [`start`], [`folder`], [`observe`]: how a run begins, what it leaves on disk (never half), who watches it.
//! - [`interop`]: dictionaries in the formats of other tools.
//! - [`report`]: the self-contained page.
//!
//! ```
//! use sememe_run::generative::Config;
//!
//! let text = "[data]\nworld = { name = \"three-dots\" }\n[model]\nname = \"vae\"\ndz = 6";
//! let config = Config::parse(text, "mine.toml", &["training.steps=100".into()])?;
//! assert_eq!(config.training.steps, 100);
//!
//! // A key that does not exist is an error that names the nearest one.
//! let wrong = Config::parse(text, "mine.toml", &["training.stepz=100".into()]).unwrap_err().to_string();
//! assert!(wrong.contains("did you mean `steps`?"));
//! # Ok::<(), sememe_run::config::ConfigError>(())
//! ```

pub mod activations;
pub mod atomic;
mod checkpoint;
pub mod config;
pub mod dictionary;
pub mod error;
pub mod folder;
pub mod generative;
pub mod interop;
pub mod language_model;
pub mod observe;
pub mod pair;
pub mod report;
pub mod source;
pub mod start;
pub mod text;
