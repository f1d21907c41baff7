//! Named arrays of single-precision numbers, as every format holds them, and their safetensors form.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::{InteropError, read_bytes, write_bytes};

/// Numbers in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// In C order.
    pub values: Vec<f32>,
}

impl Array {
    /// An array of one dimension.
    pub fn vector(values: Vec<f32>) -> Self {
        Self { shape: vec![values.len()], values }
    }

    /// A matrix, row after row.
    pub fn matrix(rows: usize, columns: usize, values: Vec<f32>) -> Self {
        Self { shape: vec![rows, columns], values }
    }

    /// A matrix with rows and columns exchanged.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let (rows, columns) = (self.shape[0], self.shape.get(1).copied().unwrap_or(1));
        let mut values = vec![0.0; self.values.len()];
        // Square tiles keep both sides in the cache.
        const TILE: usize = 32;
        for first in (0..rows).step_by(TILE) {
            for second in (0..columns).step_by(TILE) {
                for i in first..(first + TILE).min(rows) {
                    for j in second..(second + TILE).min(columns) {
                        values[j * rows + i] = self.values[i * columns + j];
                    }
                }
            }
        }
        Self::matrix(columns, rows, values)
    }
}

/// Arrays of one file, taken out by name.
#[derive(Clone, Debug)]
pub struct Arrays<'a> {
    path: &'a Path,
    by_name: BTreeMap<String, Array>,
}

impl<'a> Arrays<'a> {
    /// The arrays that were found in `path`.
    pub fn new(path: &'a Path, by_name: BTreeMap<String, Array>) -> Self {
        Self { path, by_name }
    }

    /// Names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.by_name.keys().map(String::as_str).collect()
    }

    /// Whether there is an array of this name.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    fn error(&self, message: String) -> InteropError {
        InteropError::Content { path: self.path.into(), message }
    }

    /// The array `name`, of as many dimensions as `rank`.
    pub fn take(&mut self, name: &str, rank: usize) -> Result<Array, InteropError> {
        match self.by_name.remove(name) {
            Some(array) if array.shape.len() == rank => Ok(array),
            Some(array) => Err(self.error(format!("`{name}` has shape {:?}, expected {rank} dimensions", array.shape))),
            None => Err(self.error(format!("`{name}` is missing; there are {}", self.names().join(", ")))),
        }
    }

    /// The array `name` of exactly this shape.
    pub fn take_shaped(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, InteropError> {
        let array = self.take(name, shape.len())?;
        if array.shape == shape {
            Ok(array.values)
        } else {
            Err(self.error(format!("`{name}` has shape {:?}, expected {shape:?}", array.shape)))
        }
    }

    /// Refuses arrays that nobody asked for, so that nothing in a file is silently left out.
    pub fn finish(&self) -> Result<(), InteropError> {
        if self.by_name.is_empty() { Ok(()) } else { Err(self.error(format!("holds unknown arrays: {}", self.names().join(", ")))) }
    }
}

/// Numbers of any float type as single-precision ones; `None` for a type that holds no real numbers.
pub(super) fn floats(bytes: &[u8], dtype: Dtype) -> Option<Vec<f32>> {
    Some(match dtype {
        Dtype::F64 => bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect(),
        Dtype::F32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        Dtype::F16 => bytes.as_chunks().0.iter().map(|bytes| burn::tensor::f16::from_le_bytes(*bytes).to_f32()).collect(),
        Dtype::BF16 => bytes.as_chunks().0.iter().map(|bytes| burn::tensor::bf16::from_le_bytes(*bytes).to_f32()).collect(),
        Dtype::I64 => bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes) as f32).collect(),
        Dtype::I32 => bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes) as f32).collect(),
        Dtype::U8 | Dtype::BOOL => bytes.iter().map(|byte| f32::from(*byte)).collect(),
        _ => return None,
    })
}

/// All arrays of a safetensors file.
pub(super) fn read_safetensors(path: &Path) -> Result<Arrays<'_>, InteropError> {
    let content = |message: String| InteropError::Content { path: path.into(), message };
    let bytes = read_bytes(path)?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| content(format!("not a .safetensors file, or damaged ({error})")))?;
    let arrays = file.iter().map(|(name, view)| {
        let values =
            floats(view.data(), view.dtype()).ok_or_else(|| content(format!("`{name}` is {:?}; known are floats", view.dtype())))?;
        Ok((name.to_string(), Array { shape: view.shape().to_vec(), values }))
    });
    Ok(Arrays::new(path, arrays.collect::<Result<_, InteropError>>()?))
}

/// Writes the arrays as a safetensors file, in single precision.
pub(super) fn write_safetensors(path: &Path, arrays: &[(&str, Array)]) -> Result<(), InteropError> {
    let content = |error: safetensors::SafeTensorError| InteropError::Content { path: path.into(), message: error.to_string() };
    let raw: Vec<(&str, &[usize], Vec<u8>)> = arrays
        .iter()
        .map(|(name, array)| (*name, array.shape.as_slice(), array.values.iter().flat_map(|value| value.to_le_bytes()).collect()))
        .collect();
    let views = raw
        .iter()
        .map(|(name, shape, bytes)| TensorView::new(Dtype::F32, shape.to_vec(), bytes).map(|view| (*name, view)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(content)?;
    write_bytes(path, &safetensors::serialize(views, None).map_err(content)?)
}
