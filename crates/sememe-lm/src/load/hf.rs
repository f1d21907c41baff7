//! Hugging Face folders: `config.json` and safetensors, whole or in shards, read tensor by tensor.
//!
//! A safetensors file is the length of its header (8 bytes, little end
//! first), the header (JSON: name to type, shape and range of bytes), and the bytes.
//!
//! # Source
//! <https://github.com/huggingface/safetensors>, section *Format*.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use serde::Deserialize;

use crate::weights::Checkpoint;
use crate::{Description, LmError};

/// Longest header that is believed.
const LONGEST_HEADER: u64 = 100_000_000;

#[derive(Clone, Debug, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
    /// Which file, and where its bytes begin.
    #[serde(skip)]
    place: (PathBuf, u64),
}

/// An opened folder.
pub(super) struct Folder {
    /// Its path.
    pub path: PathBuf,
    tensors: BTreeMap<String, Entry>,
}

/// The name without the prefixes that wrap a language model in a larger one.
fn bare(name: &str) -> String {
    for (prefix, instead) in
        [("model.language_model.", "model."), ("language_model.model.", "model."), ("language_model.", ""), ("transformer.", "")]
    {
        if let Some(rest) = name.strip_prefix(prefix) {
            return format!("{instead}{rest}");
        }
    }
    name.to_string()
}

fn header(file: &Path) -> Result<BTreeMap<String, Entry>, LmError> {
    let failed = |source| LmError::File { file: file.to_path_buf(), source };
    let corrupt = |problem: String| LmError::Corrupt { file: file.to_path_buf(), problem };
    let mut open = File::open(file).map_err(failed)?;
    let size = open.metadata().map_err(failed)?.len();
    let mut length = [0; 8];
    open.read_exact(&mut length).map_err(|_| corrupt(format!("{size} bytes are too few for a safetensors file")))?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER || length + 8 > size {
        return Err(corrupt(format!("its header claims {length} of {size} bytes, so this is no safetensors file or it was cut short")));
    }
    let mut text = vec![0; length as usize];
    open.read_exact(&mut text).map_err(failed)?;
    let json: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&text).map_err(|error| corrupt(format!("its header is not JSON: {error}")))?;
    let mut entries = BTreeMap::new();
    for (name, value) in json.into_iter().filter(|(name, _)| name != "__metadata__") {
        let mut entry: Entry =
            serde_json::from_value(value).map_err(|error| corrupt(format!("its header has no place for `{name}`: {error}")))?;
        let [start, end] = entry.data_offsets;
        if start > end || end > size - 8 - length {
            return Err(corrupt(format!("tensor `{name}` ends at byte {end} of {}; the file was cut short", size - 8 - length)));
        }
        entry.place = (file.to_path_buf(), 8 + length);
        entries.insert(bare(&name), entry);
    }
    Ok(entries)
}

impl Folder {
    /// Reads the headers of all shards.
    pub fn open(path: &Path) -> Result<Self, LmError> {
        let index = path.join("model.safetensors.index.json");
        let names: Vec<String> = if index.is_file() {
            let text = std::fs::read_to_string(&index).map_err(|source| LmError::File { file: index.clone(), source })?;
            #[derive(Deserialize)]
            struct Index {
                weight_map: BTreeMap<String, String>,
            }
            let index: Index = serde_json::from_str(&text)
                .map_err(|error| LmError::Corrupt { file: index.clone(), problem: format!("no index of shards: {error}") })?;
            index.weight_map.into_values().collect::<std::collections::BTreeSet<_>>().into_iter().collect()
        } else {
            vec!["model.safetensors".into()]
        };
        if let Some(name) = names.iter().find(|name| !path.join(name).is_file()) {
            let pickled = path.join("pytorch_model.bin").is_file();
            let advice = if pickled { "it has `pytorch_model.bin` only: convert it to safetensors" } else { "download it again" };
            return Err(LmError::NoModel { given: path.display().to_string(), problem: format!("`{name}` is missing; {advice}") });
        }
        let mut tensors = BTreeMap::new();
        for name in names {
            tensors.append(&mut header(&path.join(name))?);
        }
        Ok(Self { path: path.to_path_buf(), tensors })
    }

    /// The description in `config.json`.
    pub fn describe(&self) -> Result<Description, LmError> {
        let file = self.path.join("config.json");
        let text = std::fs::read_to_string(&file).map_err(|source| LmError::File { file: file.clone(), source })?;
        Description::from_json(&text, &file)
    }
}

impl Checkpoint for Folder {
    fn place(&self) -> &Path {
        &self.path
    }

    fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn read(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), LmError> {
        let Some(entry) = self.tensors.get(name) else {
            return Err(LmError::MissingTensor { file: self.path.clone(), tensor: name.to_string() });
        };
        let (file, base) = &entry.place;
        let failed = |source| LmError::File { file: file.clone(), source };
        let bytes_each = match entry.dtype.as_str() {
            "F32" => 4,
            "F16" | "BF16" => 2,
            other => {
                return Err(LmError::Precision {
                    file: file.clone(),
                    tensor: name.to_string(),
                    found: other.to_string(),
                    readable: "F32, F16 and BF16",
                });
            }
        };
        let elements = entry.shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
        let [start, end] = entry.data_offsets;
        if elements.and_then(|elements| elements.checked_mul(bytes_each)) != Some((end - start) as usize) {
            let problem = format!("tensor `{name}` of shape {:?} has {} bytes", entry.shape, end - start);
            return Err(LmError::Corrupt { file: file.clone(), problem });
        }
        let mut open = File::open(file).map_err(failed)?;
        open.seek(SeekFrom::Start(base + start)).map_err(failed)?;
        let mut bytes = vec![0; (end - start) as usize];
        open.read_exact(&mut bytes).map_err(failed)?;
        let pair = |two: &[u8]| u16::from_le_bytes([two[0], two[1]]);
        let values = match entry.dtype.as_str() {
            "F32" => bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect(),
            "F16" => bytes.chunks_exact(2).map(|two| f16::from_bits(pair(two)).to_f32()).collect(),
            _ => bytes.chunks_exact(2).map(|two| bf16::from_bits(pair(two)).to_f32()).collect(),
        };
        Ok((entry.shape.clone(), values))
    }
}
