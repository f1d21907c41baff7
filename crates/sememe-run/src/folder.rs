//! The run folder: the one meeting point of training, evaluation, report and viewer.
//!
//! | file | what |
//! |---|---|
//! | `config.toml` | the resolved config |
//! | `manifest.json` | format version, code version, seed, command, whether it is finished |
//! | `starts.json` | the seeds of the starts and what each reached, if several were tried |
//! | `metrics.jsonl` | one JSON object a line, as training goes on |
//! | `checkpoint.json` | the name of the folder that holds the current checkpoint |
//! | `checkpoint-…/` | `model.safetensors`, `optimiser.safetensors`, `state.json` |
//! | `evaluation.json` | scores beside their nulls |
//! | `arrays/*.npy` | codes, dependency matrices |
//! | `report.html` | the self-contained page |
//!
//! A checkpoint is written into a folder of its own, flushed, and made current
//! by renaming one small file over `checkpoint.json`: a run killed at any
//! moment leaves the old checkpoint or the new one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sememe_truth::Matrix;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::atomic;

/// The version of this layout.
pub const FORMAT_VERSION: u32 = 1;

/// Why a run folder could not be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// Reading or writing failed.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is something already.
    #[error(
        "{0}: the folder exists and is not empty; use --resume to go on with its run, --overwrite to replace it, or --out for another folder"
    )]
    Exists(PathBuf),
    /// There is something that is no run.
    #[error("{0}: holds other files than a run's, and is not replaced; choose another folder with --out")]
    Foreign(PathBuf),
    /// No run here.
    #[error("{0}: no run (there is no manifest.json); give the folder that `sememe train` wrote")]
    NoRun(PathBuf),
    /// A file that does not parse.
    #[error("{path}: {message}; the file is damaged")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// Written by a later version.
    #[error("{path}: format version {found}, this program reads up to {FORMAT_VERSION}; use a newer sememe")]
    Newer {
        /// Where.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Another process writes this run.
    #[error("{path}: process {pid} is writing this run; wait for it, or choose another folder with --out")]
    Locked {
        /// Where.
        path: PathBuf,
        /// Whose lock.
        pid: u32,
    },
}

/// What to do with a folder that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// Leave it and fail.
    Refuse,
    /// Remove the run in it.
    Replace,
}

/// `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT_VERSION`] at the time of writing.
    pub format_version: u32,
    /// Version of the code.
    pub sememe_version: String,
    /// The run's seed.
    pub seed: u64,
    /// Seconds since 1970.
    pub created_unix_seconds: u64,
    /// The command line.
    pub command: String,
    /// The recipe, if it was one.
    pub recipe: Option<String>,
    /// Whether all steps were taken and evaluated.
    pub finished: bool,
}

impl Manifest {
    /// The manifest of a run that begins.
    pub fn new(seed: u64, created_unix_seconds: u64, command: &str, recipe: Option<String>) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            sememe_version: env!("CARGO_PKG_VERSION").into(),
            seed,
            created_unix_seconds,
            command: command.into(),
            recipe,
            finished: false,
        }
    }
}

/// A run's folder, locked while this value lives if it was opened for writing.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    lock: Option<PathBuf>,
}

/// `starts.json`: what the starts reached and which one goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartsRecord {
    /// The seed of each start.
    pub seeds: Vec<u64>,
    /// The objective that each reached; lower is better.
    pub objectives: Vec<f64>,
    /// The start that goes on.
    pub chosen: usize,
}

const STARTS: &str = "starts.json";
const MANIFEST: &str = "manifest.json";
const POINTER: &str = "checkpoint.json";
const METRICS: &str = "metrics.jsonl";
const LOCK: &str = ".lock";

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, FolderError> {
    result.map_err(|source| FolderError::Io { path: path.into(), source })
}

impl RunFolder {
    /// A new run in `path`.
    pub fn create(path: &Path, if_exists: IfExists) -> Result<Self, FolderError> {
        if path.exists() && at(path, fs::read_dir(path))?.next().is_some() {
            if if_exists == IfExists::Refuse {
                return Err(FolderError::Exists(path.into()));
            }
            if !path.join(MANIFEST).exists() {
                return Err(FolderError::Foreign(path.into()));
            }
            Self::held_by_another(path)?;
            at(path, fs::remove_dir_all(path))?;
        }
        at(path, fs::create_dir_all(path))?;
        Self::locked(path)
    }

    /// The run in `path`, to go on with.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let folder = Self::read(path)?;
        let folder = Self::locked(&folder.path)?;
        folder.remove_leftovers()?;
        Ok(folder)
    }

    /// The run in `path`, to look at.
    pub fn read(path: &Path) -> Result<Self, FolderError> {
        if !path.join(MANIFEST).is_file() {
            return Err(FolderError::NoRun(path.into()));
        }
        let folder = Self { path: path.into(), lock: None };
        folder.manifest()?;
        Ok(folder)
    }

    fn held_by_another(path: &Path) -> Result<(), FolderError> {
        let Ok(text) = fs::read_to_string(path.join(LOCK)) else { return Ok(()) };
        let Ok(pid) = text.trim().parse::<u32>() else { return Ok(()) };
        // A lock outlives a killed process; where the system lists processes, such a lock is void.
        let alive = !Path::new("/proc/self").exists() || Path::new("/proc").join(pid.to_string()).exists();
        if alive && pid != std::process::id() { Err(FolderError::Locked { path: path.into(), pid }) } else { Ok(()) }
    }

    fn locked(path: &Path) -> Result<Self, FolderError> {
        Self::held_by_another(path)?;
        let lock = path.join(LOCK);
        at(&lock, fs::write(&lock, std::process::id().to_string()))?;
        Ok(Self { path: path.into(), lock: Some(lock) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let path = self.path.join(name);
        at(&path, atomic::write(&path, bytes))
    }

    fn read_text(&self, name: &str) -> Result<String, FolderError> {
        let path = self.path.join(name);
        at(&path, fs::read_to_string(&path))
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, FolderError> {
        serde_json::from_str(&self.read_text(name)?)
            .map_err(|error| FolderError::Damaged { path: self.path.join(name), message: error.to_string() })
    }

    /// Writes `starts.json`.
    pub fn write_starts(&self, starts: &StartsRecord) -> Result<(), FolderError> {
        self.write(STARTS, json!(starts).to_string().as_bytes())
    }

    /// The starts that have been tried, if they have.
    pub fn read_starts(&self) -> Result<Option<StartsRecord>, FolderError> {
        if self.path.join(STARTS).is_file() { self.parse(STARTS).map(Some) } else { Ok(None) }
    }

    /// Writes `config.toml`.
    pub fn write_config(&self, toml: &str) -> Result<(), FolderError> {
        self.write("config.toml", toml.as_bytes())
    }

    /// The text of `config.toml`.
    pub fn read_config(&self) -> Result<String, FolderError> {
        self.read_text("config.toml")
    }

    /// Writes `manifest.json`.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), FolderError> {
        self.write(MANIFEST, json!(manifest).to_string().as_bytes())
    }

    /// The manifest.
    pub fn manifest(&self) -> Result<Manifest, FolderError> {
        let raw: Value = self.parse(MANIFEST)?;
        let found = raw.get("format_version").and_then(Value::as_u64).unwrap_or(0) as u32;
        if found > FORMAT_VERSION {
            return Err(FolderError::Newer { path: self.path.join(MANIFEST), found });
        }
        serde_json::from_value(raw).map_err(|error| FolderError::Damaged { path: self.path.join(MANIFEST), message: error.to_string() })
    }

    /// Notes in the manifest that the run is complete.
    pub fn mark_finished(&self) -> Result<(), FolderError> {
        self.write_manifest(&Manifest { finished: true, ..self.manifest()? })
    }

    /// Appends one line to `metrics.jsonl`.
    pub fn append_metrics(&self, line: &Value) -> Result<(), FolderError> {
        let path = self.path.join(METRICS);
        let mut file = at(&path, OpenOptions::new().create(true).append(true).open(&path))?;
        at(&path, file.write_all(format!("{line}\n").as_bytes()))
    }

    /// The lines of `metrics.jsonl`; a last line that was torn is left out.
    pub fn metrics(&self) -> Result<Vec<Value>, FolderError> {
        let path = self.path.join(METRICS);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = self.read_text(METRICS)?;
        let mut lines = Vec::new();
        let count = text.lines().count();
        for (number, line) in text.lines().enumerate() {
            match serde_json::from_str(line) {
                Ok(value) => lines.push(value),
                Err(_) if number + 1 == count => {}
                Err(error) => return Err(FolderError::Damaged { path, message: format!("line {}: {error}", number + 1) }),
            }
        }
        Ok(lines)
    }

    /// Drops the lines of steps after `step`: they will be taken again.
    pub fn cut_metrics_after(&self, step: usize) -> Result<(), FolderError> {
        let kept: String = self
            .metrics()?
            .into_iter()
            .filter(|line| line.get("step").and_then(Value::as_u64).is_none_or(|at| at as usize <= step))
            .map(|line| format!("{line}\n"))
            .collect();
        self.write(METRICS, kept.as_bytes())
    }

    /// Writes the files of a checkpoint and makes it current.
    pub fn write_checkpoint(&self, files: &[(&str, &[u8])]) -> Result<(), FolderError> {
        let before = self.current_checkpoint()?;
        let number =
            before.as_ref().and_then(|name| name.strip_prefix("checkpoint-")).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
                + 1;
        let name = format!("checkpoint-{number}");
        let folder = self.path.join(&name);
        if folder.exists() {
            at(&folder, fs::remove_dir_all(&folder))?;
        }
        at(&folder, fs::create_dir(&folder))?;
        for (file, bytes) in files {
            let path = folder.join(file);
            at(&path, atomic::write(&path, bytes))?;
        }
        at(&folder, atomic::sync_folder(&folder))?;
        self.write(POINTER, json!({ "folder": name }).to_string().as_bytes())?;
        if let Some(before) = before {
            let old = self.path.join(before);
            at(&old, fs::remove_dir_all(&old))?;
        }
        Ok(())
    }

    fn current_checkpoint(&self) -> Result<Option<String>, FolderError> {
        if !self.path.join(POINTER).exists() {
            return Ok(None);
        }
        let pointer: Value = self.parse(POINTER)?;
        let name =
            pointer.get("folder").and_then(Value::as_str).filter(|name| name.starts_with("checkpoint-") && !name.contains(['/', '\\']));
        match name {
            Some(name) => Ok(Some(name.into())),
            None => Err(FolderError::Damaged { path: self.path.join(POINTER), message: "`folder` names no checkpoint".into() }),
        }
    }

    /// The files of the current checkpoint, or `None` when there is none.
    pub fn read_checkpoint(&self, files: &[&str]) -> Result<Option<Vec<Vec<u8>>>, FolderError> {
        let Some(name) = self.current_checkpoint()? else { return Ok(None) };
        let folder = self.path.join(name);
        files.iter().map(|file| at(&folder.join(file), fs::read(folder.join(file)))).collect::<Result<_, _>>().map(Some)
    }

    /// Removes checkpoint folders that never became current.
    fn remove_leftovers(&self) -> Result<(), FolderError> {
        let current = self.current_checkpoint()?;
        for entry in at(&self.path, fs::read_dir(&self.path))? {
            let entry = at(&self.path, entry)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("checkpoint-") && Some(&name) != current.as_ref() {
                at(&entry.path(), fs::remove_dir_all(entry.path()))?;
            }
        }
        Ok(())
    }

    /// Writes `arrays/NAME.npy`.
    pub fn write_array(&self, name: &str, matrix: &Matrix) -> Result<(), FolderError> {
        let arrays = self.path.join("arrays");
        at(&arrays, fs::create_dir_all(&arrays))?;
        let path = arrays.join(format!("{name}.npy"));
        at(&path, npy_bytes(matrix).and_then(|bytes| atomic::write(&path, &bytes)))
    }

    /// Writes one of the folder's JSON files.
    pub fn write_json(&self, name: &str, value: &Value) -> Result<(), FolderError> {
        self.write(name, value.to_string().as_bytes())
    }

    /// Reads one of the folder's JSON files, if it is there.
    pub fn read_json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, FolderError> {
        if self.path.join(name).is_file() { self.parse(name).map(Some) } else { Ok(None) }
    }

    /// Writes `report.html`.
    pub fn write_report(&self, html: &str) -> Result<PathBuf, FolderError> {
        self.write("report.html", html.as_bytes())?;
        Ok(self.path.join("report.html"))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            // A lock that stays behind is void once this process has ended.
            let _ = fs::remove_file(lock);
        }
    }
}

/// A matrix as the bytes of an .npy file (float64, C order).
fn npy_bytes(matrix: &Matrix) -> io::Result<Vec<u8>> {
    use npyz::WriterBuilder;
    let mut bytes = Vec::new();
    let shape = [matrix.nrows() as u64, matrix.ncols() as u64];
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(&mut bytes).begin_nd()?;
    for i in 0..matrix.nrows() {
        for j in 0..matrix.ncols() {
            writer.push(&matrix[(i, j)])?;
        }
    }
    writer.finish()?;
    Ok(bytes)
}
