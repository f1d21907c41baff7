//! Runs: the only place with a disk — configs, data, observers of the loop, run folders, checkpoints and reports.
//!
//! - [`config`]: what a recipe says, checked once.
//! - [`source`]: arrays of the user's own.
//! - [`data`]: the data of a run, made or read.
//! - [`run`]: from config to evaluated model.
//! - [`folder`]: what a run leaves on disk, written so that nothing is ever half there.
//! - [`interop`]: dictionaries in the formats of other tools.
//! - [`report`]: the self-contained page.
//!
//! ```
//! use sememe_run::config::Config;
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

pub mod atomic;
mod checkpoint;
pub mod config;
pub mod data;
pub mod error;
pub mod evaluate;
pub mod folder;
pub mod interop;
pub mod observe;
pub mod report;
pub mod run;
pub mod source;
