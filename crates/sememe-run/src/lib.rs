//! Runs: the only place with a disk — configs, data, observers of the loop, run folders, checkpoints and reports.
//!
//! - [`config`]: what a recipe says, checked once.
//! - [`source`]: arrays of the user's own.
//! - [`data`]: the data of a run, made or read.
//! - [`run`]: from config to evaluated model.
//! - [`folder`]: what a run leaves on disk, written so that nothing is ever half there.
//! - [`report`]: the self-contained page.

pub mod atomic;
mod checkpoint;
pub mod config;
pub mod data;
pub mod error;
pub mod evaluate;
pub mod folder;
pub mod observe;
pub mod report;
pub mod run;
pub mod source;
