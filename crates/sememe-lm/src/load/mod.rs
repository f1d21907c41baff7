//! From a folder, a file or a name to a model: finds the files, reads the description, fills in the numbers.

mod gguf;
mod gguf_names;
mod gguf_tokenizer;
mod hf;
mod quant;

use std::path::{Path, PathBuf};

use burn::tensor::Device;

pub use gguf::Gguf;
pub(crate) use gguf_tokenizer::tokenizer_json;

use crate::weights::fill;
use crate::{Description, LmError, Tokenizer, Transformer};

/// The files of a model.
enum Files {
    Folder(hf::Folder),
    Gguf(Box<gguf_names::Renamed>),
}

/// The file or folder that `given` stands for: a path, or `hf:org/name` for a model in the local Hugging Face cache.
///
/// # Errors
/// A name that is not in the cache, with the commands that bring it there.
pub fn resolve(given: &str) -> Result<PathBuf, LmError> {
    let Some(name) = given.strip_prefix("hf:") else { return Ok(PathBuf::from(given)) };
    let cache = std::env::var_os("HF_HUB_CACHE").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HF_HOME").map(PathBuf::from);
        home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/huggingface"))).map(|home| home.join("hub"))
    });
    let model = cache.unwrap_or_default().join(format!("models--{}", name.replace('/', "--")));
    let revision = std::fs::read_to_string(model.join("refs/main")).map(|text| text.trim().to_string()).ok();
    let snapshot = revision.map(|revision| model.join("snapshots").join(revision)).filter(|folder| folder.is_dir());
    snapshot.ok_or_else(|| LmError::NoModel {
        given: given.to_string(),
        problem: format!(
            "it is not in the local cache ({}); run `hf download {name}` there, or on a machine with network and copy the folder, and give its path",
            model.display()
        ),
    })
}

fn open(given: &str) -> Result<Files, LmError> {
    let path = resolve(given)?;
    let no_model = |problem: &str| LmError::NoModel { given: given.to_string(), problem: problem.to_string() };
    if path.is_dir() {
        if path.join("config.json").is_file() {
            return Ok(Files::Folder(hf::Folder::open(&path)?));
        }
        let entries = std::fs::read_dir(&path).map_err(|source| LmError::File { file: path.clone(), source })?;
        let mut files: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|file| file.extension().is_some_and(|end| end == "gguf")).collect();
        files.sort();
        return match files.as_slice() {
            [one] => Ok(Files::Gguf(Box::new(gguf_names::Renamed::open(one)?))),
            [] => Err(no_model("the folder has neither `config.json` nor a `.gguf` file; give the folder into which the model was saved")),
            _ => Err(no_model("the folder has several `.gguf` files; give one of them")),
        };
    }
    if path.is_file() {
        return Ok(Files::Gguf(Box::new(gguf_names::Renamed::open(&path)?)));
    }
    Err(no_model("no such file or folder; check the path, or give `hf:org/name` for a model in the local cache"))
}

/// The description of a model, without its numbers.
///
/// # Errors
/// Files that are missing or wrong, an architecture that is not known.
pub fn describe(given: &str) -> Result<Description, LmError> {
    match open(given.strip_prefix(RANDOM).unwrap_or(given))? {
        Files::Folder(folder) => folder.describe(),
        Files::Gguf(file) => file.describe(),
    }
}

/// A prefix of a model's name: its architecture and tokenizer with weights drawn anew, as a null for whatever is found in it.
const RANDOM: &str = "random:";

/// The model in a Hugging Face folder or a GGUF file, in single precision; `random:` before its name replaces its weights by
/// fresh ones (seed 0).
///
/// # Errors
/// Files that are missing or wrong, an architecture that is not known, tensors that do not fit the config.
pub fn load_model(given: &str, device: &Device) -> Result<Transformer, LmError> {
    let (name, is_random) = given.strip_prefix(RANDOM).map_or((given, false), |name| (name, true));
    from_files(&open(name)?, is_random, device)
}

/// The model and its tokenizer.
///
/// # Errors
/// Those of [`load_model`], and a tokenizer that is missing or cannot be read.
pub fn load(given: &str, device: &Device) -> Result<(Transformer, Tokenizer), LmError> {
    let (name, is_random) = given.strip_prefix(RANDOM).map_or((given, false), |name| (name, true));
    let files = open(name)?;
    let tokenizer = match &files {
        Files::Folder(folder) => Tokenizer::from_file(&folder.path.join("tokenizer.json"))?,
        Files::Gguf(file) => Tokenizer::from_gguf(&file.gguf)?,
    };
    Ok((from_files(&files, is_random, device)?, tokenizer))
}

fn from_files(files: &Files, is_random: bool, device: &Device) -> Result<Transformer, LmError> {
    let (description, checkpoint): (Description, &dyn crate::weights::Checkpoint) = match files {
        Files::Folder(folder) => (folder.describe()?, folder),
        Files::Gguf(file) => (file.describe()?, file.as_ref()),
    };
    if is_random {
        return Ok(Transformer::init(&description, 0, device));
    }
    let rules = (description.family.rules)(&description);
    fill(Transformer::empty(&description, device), &rules, checkpoint, description.is_tied)
}
