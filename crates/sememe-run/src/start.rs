//! How every run begins, of whatever kind: options, the folder, the lock, the resolved config, the manifest.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::RunError;
use crate::folder::{IfExists, Manifest, RunFolder};
use crate::observe::{Interrupt, Verbosity};

/// How a run is carried out; nothing here changes its numbers.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Continue from the last checkpoint in the folder.
    pub resume: bool,
    /// Replace a folder that holds another run.
    pub overwrite: bool,
    /// What is said meanwhile.
    pub verbosity: Verbosity,
    /// The command line, for the manifest.
    pub command: String,
    /// The recipe's name, for the manifest.
    pub recipe: Option<String>,
    /// Set by Ctrl-C.
    pub interrupt: Interrupt,
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome<E> {
    /// All steps were taken; the folder holds the evaluation.
    Finished(Box<E>),
    /// It was interrupted after this many steps and can be resumed.
    Interrupted {
        /// Steps taken.
        step: usize,
    },
}

/// The folder of a new run with its config and manifest, or that of the run to resume, whose config must be the same.
///
/// # Errors
/// A folder that holds something else, or another config.
pub fn open_run(path: &Path, resolved: &str, seed: u64, options: &RunOptions) -> Result<RunFolder, RunError> {
    if options.resume {
        let folder = RunFolder::open(path)?;
        if folder.read_config()? != resolved {
            return Err(RunError::Data(format!(
                "{}: the folder's config.toml differs from the config asked for; resume with the same config, or start anew with --overwrite",
                path.display()
            )));
        }
        return Ok(folder);
    }
    let folder = RunFolder::create(path, if options.overwrite { IfExists::Replace } else { IfExists::Refuse })?;
    folder.write_config(resolved)?;
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    folder.write_manifest(&Manifest::new(seed, created, &options.command, options.recipe.clone()))?;
    Ok(folder)
}

/// What a run is called in progress and reports: its folder's name.
pub fn label_of(path: &Path) -> String {
    path.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned())
}
