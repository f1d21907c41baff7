//! `activations.json`: what a folder of activations holds, where it came from, and where its harvest goes on.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::shard::{Chunk, Precision};
use super::{ActivationsError, at};
use crate::atomic;

/// The version of this layout.
const FORMAT_VERSION: u32 = 1;
pub(crate) const MANIFEST: &str = "activations.json";

/// A hook whose activations are there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookInfo {
    /// Layer and place, `12.mlp_out`.
    pub hook: String,
    /// Width of the activation.
    pub width: usize,
    /// Mean ‖x‖ over all tokens that were kept.
    pub mean_norm: f64,
}

/// Tokens that were not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// Whether the first token of each context was left out (an attention sink in many models).
    pub first: bool,
    /// Whether special tokens were left out.
    pub special: bool,
    /// How many tokens these are.
    pub tokens: u64,
}

/// A file and how much it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name in the folder.
    pub file: String,
    /// Tokens in a shard, contexts in a file of contexts.
    pub count: usize,
}

/// Where a harvest that is not finished goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// Documents begun, and contexts of the last one that are still to come.
    pub place: (usize, usize),
    /// How often the shuffle buffer was emptied.
    pub emissions: usize,
    /// Sum of ‖x‖ at each hook.
    pub norm_sums: Vec<f64>,
    /// Tokens in these sums.
    pub kept: u64,
}

/// `activations.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the layout.
    pub format_version: u32,
    /// Version of the code.
    pub sememe_version: String,
    /// The model as it was given.
    pub model: String,
    /// What tells its weights from those of another.
    pub fingerprint: String,
    /// What was harvested.
    pub hooks: Vec<HookInfo>,
    /// How numbers are stored.
    pub precision: Precision,
    /// Tokens of the longest context.
    pub context_tokens: usize,
    /// What was not kept.
    pub left_out: LeftOut,
    /// The text.
    pub text: Vec<PathBuf>,
    /// Share of the text that is held out.
    pub test_fraction: f64,
    /// Seed of order and held-out text.
    pub seed: u64,
    /// Shards to train on.
    pub train: Vec<Part>,
    /// Held-out shards.
    pub test: Vec<Part>,
    /// Files of contexts.
    pub contexts: Vec<Part>,
    /// Where to go on; nothing when the harvest is finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

fn sum(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.count).sum()
}

impl Manifest {
    /// The version that this program writes.
    pub(crate) fn version() -> u32 {
        FORMAT_VERSION
    }

    /// Tokens to train on.
    pub fn train_tokens(&self) -> usize {
        sum(&self.train)
    }

    /// Held-out tokens.
    pub fn test_tokens(&self) -> usize {
        sum(&self.test)
    }

    /// Contexts, of training and test together.
    pub fn context_count(&self) -> usize {
        sum(&self.contexts)
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), ActivationsError> {
        let path = folder.join(MANIFEST);
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| ActivationsError::Io { path: path.clone(), source: std::io::Error::other(error) })?;
        at(&path, atomic::write(&path, text.as_bytes()))
    }
}

/// A folder of activations.
#[derive(Clone, Debug)]
pub struct Activations {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub manifest: Manifest,
}

impl Activations {
    /// The folder at `path`, finished or not.
    ///
    /// # Errors
    /// No manifest, or one that is damaged or of a later version.
    pub fn read(path: &Path) -> Result<Self, ActivationsError> {
        let file = path.join(MANIFEST);
        if !file.is_file() {
            return Err(ActivationsError::NoActivations(path.into()));
        }
        let text = at(&file, std::fs::read_to_string(&file))?;
        let manifest: Manifest =
            serde_json::from_str(&text).map_err(|error| ActivationsError::Damaged { path: file.clone(), message: error.to_string() })?;
        if manifest.format_version > FORMAT_VERSION {
            let message =
                format!("format version {}, this program reads up to {FORMAT_VERSION}; use a newer sememe", manifest.format_version);
            return Err(ActivationsError::Mismatch { path: file, message });
        }
        Ok(Self { path: path.into(), manifest })
    }

    /// The folder at `path`, whose harvest is finished and which holds tokens to train on.
    ///
    /// # Errors
    /// Those of [`Activations::read`], and a harvest that was stopped.
    pub fn open(path: &Path) -> Result<Self, ActivationsError> {
        let folder = Self::read(path)?;
        if folder.manifest.resume.is_some() {
            let message = "the harvest was stopped before its end; finish it with `sememe harvest … --resume`".into();
            return Err(ActivationsError::Mismatch { path: path.into(), message });
        }
        Ok(folder)
    }

    /// The hook called `name`: its index in the shards.
    ///
    /// # Errors
    /// A hook that was not harvested.
    pub fn hook(&self, name: &str) -> Result<usize, ActivationsError> {
        let known = || self.manifest.hooks.iter().map(|info| info.hook.as_str()).collect::<Vec<_>>().join(", ");
        self.manifest.hooks.iter().position(|info| info.hook == name).ok_or_else(|| ActivationsError::Mismatch {
            path: self.path.clone(),
            message: format!("hook `{name}` is not among the activations ({}); choose one of these or harvest it", known()),
        })
    }

    /// √d / mean ‖x‖ at a hook: the factor by which activations are multiplied for training.
    pub fn scale(&self, hook: usize) -> f64 {
        let HookInfo { width, mean_norm, .. } = self.manifest.hooks[hook];
        if mean_norm > 0.0 { (width as f64).sqrt() / mean_norm } else { 1.0 }
    }

    pub(crate) fn names(&self) -> Vec<(String, usize)> {
        self.manifest.hooks.iter().map(|info| (info.hook.clone(), info.width)).collect()
    }

    /// A shard of the manifest.
    ///
    /// # Errors
    /// A file that cannot be read, or that does not hold what the manifest says.
    pub fn shard(&self, part: &Part) -> Result<Chunk, ActivationsError> {
        let path = self.path.join(&part.file);
        let chunk = Chunk::read(&self.names(), self.manifest.precision, &path)?;
        if chunk.len() == part.count {
            return Ok(chunk);
        }
        Err(ActivationsError::Damaged { path, message: format!("{} tokens, the manifest says {}", chunk.len(), part.count) })
    }

    /// The token ids of every context.
    ///
    /// # Errors
    /// A file that cannot be read, or that does not hold what the manifest says.
    pub fn contexts(&self) -> Result<Vec<Vec<u32>>, ActivationsError> {
        let mut all = Vec::new();
        for part in &self.manifest.contexts {
            let path = self.path.join(&part.file);
            let bytes = at(&path, std::fs::read(&path))?;
            let rows = read_contexts(&bytes).map_err(|message| ActivationsError::Damaged { path: path.clone(), message })?;
            if rows.len() != part.count {
                return Err(ActivationsError::Damaged {
                    path,
                    message: format!("{} contexts, the manifest says {}", rows.len(), part.count),
                });
            }
            all.extend(rows);
        }
        Ok(all)
    }
}

fn read_contexts(bytes: &[u8]) -> Result<Vec<Vec<u32>>, String> {
    let file = safetensors::SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let list = |name: &str| {
        let view = file.tensor(name).map_err(|error| error.to_string())?;
        Ok::<_, String>(view.data().as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect::<Vec<u32>>())
    };
    let (ids, starts) = (list("token_ids")?, list("starts")?);
    starts
        .windows(2)
        .map(|pair| ids.get(pair[0] as usize..pair[1] as usize).map(<[u32]>::to_vec).ok_or("starts do not fit".into()))
        .collect()
}

/// Writes a file of contexts.
pub(crate) fn write_contexts(contexts: &[Vec<u32>], path: &Path) -> Result<(), ActivationsError> {
    use safetensors::tensor::{Dtype, TensorView};
    let mut starts = vec![0_u32];
    let mut ids: Vec<u8> = Vec::new();
    for context in contexts {
        ids.extend(context.iter().flat_map(|id| id.to_le_bytes()));
        starts.push((ids.len() / 4) as u32);
    }
    let starts_bytes: Vec<u8> = starts.iter().flat_map(|start| start.to_le_bytes()).collect();
    let broken = |error: safetensors::SafeTensorError| ActivationsError::Io { path: path.into(), source: std::io::Error::other(error) };
    let views = [
        ("token_ids", TensorView::new(Dtype::U32, vec![ids.len() / 4], &ids).map_err(broken)?),
        ("starts", TensorView::new(Dtype::U32, vec![starts.len()], &starts_bytes).map_err(broken)?),
    ];
    let bytes = safetensors::serialize(views, None).map_err(broken)?;
    at(path, atomic::write(path, &bytes))
}
