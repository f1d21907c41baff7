//! Arrays of the user's own, read from .npy, .npz, .safetensors and .csv files into a matrix of samples.
//!
//! To add a format: its own file with a `read`, and one line in [`read`].

mod csv;
mod npy;
mod safetensors;

use std::path::{Path, PathBuf};

use sememe_truth::Matrix;
use sememe_truth::structure::Support;
use thiserror::Error;

/// An array with one sample a row; dimensions past the first are flattened in order.
#[derive(Clone, Debug)]
pub struct Array {
    /// `[samples, …]` flattened to two dimensions.
    pub matrix: Matrix,
    /// The shape in the file.
    pub shape: Vec<usize>,
    /// Names of the columns, where the file has them.
    pub names: Option<Vec<String>>,
}

/// Why a file could not be read: always with the file, and with key, row or column where there is one.
#[derive(Debug, Error)]
pub enum SourceError {
    /// It cannot be opened.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its content is not what its name says.
    #[error("{path}: {message}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What, where and what to do.
        message: String,
    },
}

/// What the format readers hand up: shape, values in C order, names of columns.
struct Raw {
    shape: Vec<usize>,
    values: Vec<f64>,
    names: Option<Vec<String>>,
}

/// The array in `path`, by its extension; `key` names it within an .npz or .safetensors file.
pub fn read(path: &Path, key: Option<&str>) -> Result<Array, SourceError> {
    let content = |message: String| SourceError::Content { path: path.into(), message };
    if path.is_dir() {
        return Err(content("is a folder; give a file".into()));
    }
    let bytes = std::fs::read(path).map_err(|source| SourceError::Io { path: path.into(), source })?;
    if bytes.is_empty() {
        return Err(content("is empty".into()));
    }
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default();
    let raw = match extension.as_str() {
        "npy" => npy::read(&bytes),
        "npz" => npy::read_archive(&bytes, key),
        "safetensors" => safetensors::read(&bytes, key),
        "csv" | "txt" => csv::read(&bytes),
        other => Err(format!("unknown kind of file `.{other}`; known are .npy, .npz, .safetensors, .csv")),
    };
    raw.and_then(to_array).map_err(content)
}

fn to_array(raw: Raw) -> Result<Array, String> {
    let Raw { shape, values, names } = raw;
    let samples = shape.first().copied().unwrap_or(0);
    if shape.is_empty() || samples == 0 || values.is_empty() {
        return Err(format!("shape {shape:?} holds no samples; the first dimension counts them"));
    }
    let columns = values.len() / samples;
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        return Err(format!("{} at row {}, column {} (from 0); replace or drop it", values[at], at / columns, at % columns));
    }
    Ok(Array { matrix: Matrix::from_fn(samples, columns, |i, j| values[i * columns + j]), shape, names })
}

/// A 0/1 dependency structure: one row an observed variable.
pub fn read_support(path: &Path) -> Result<Support, SourceError> {
    let array = read(path, None)?;
    let content = |message: String| SourceError::Content { path: path.into(), message };
    for i in 0..array.matrix.nrows() {
        for j in 0..array.matrix.ncols() {
            let value = array.matrix[(i, j)];
            if value != 0.0 && value != 1.0 {
                return Err(content(format!(
                    "{value} at row {i}, column {j} (from 0); a structure has only 0 and 1 (use --threshold for real numbers)"
                )));
            }
        }
    }
    Support::from_fn(array.matrix.nrows(), array.matrix.ncols(), |i, j| array.matrix[(i, j)] == 1.0)
        .map_err(|error| content(error.to_string()))
}

/// Picks `key` among `known`; without a key there must be only one.
fn choose<'a>(key: Option<&str>, known: &'a [String]) -> Result<&'a str, String> {
    match (key, known) {
        (_, []) => Err("holds no array".into()),
        (None, [only]) => Ok(only),
        (None, _) => Err(format!("holds several arrays ({}); name one with the `key` setting", known.join(", "))),
        (Some(key), _) => match known.iter().find(|name| *name == key) {
            Some(name) => Ok(name),
            None => {
                let nearest = known.iter().min_by_key(|name| strsim::damerau_levenshtein(name, key)).map_or("", |name| name);
                Err(format!("no array `{key}`; there are {}; did you mean `{nearest}`?", known.join(", ")))
            }
        },
    }
}
