//! GGUF files: metadata, and tensors of any readable format as single precision.
//!
//! Magic, version, counts; then key, type and value of each metadatum; then
//! name, shape (innermost dimension first), format and offset of each tensor;
//! then the tensors' bytes from the next multiple of the alignment on.
//!
//! # Source
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, versions 2 and 3.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::quant::{Format, READABLE};
use crate::LmError;

/// Longest string or array that is believed, and most tensors.
const MOST: u64 = 1 << 28;

#[derive(Debug)]
struct Entry {
    shape: Vec<usize>,
    code: u32,
    offset: u64,
}

/// An opened file.
#[derive(Debug)]
pub struct Gguf {
    /// Its path.
    pub path: PathBuf,
    /// Its metadata.
    pub metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Entry>,
    base: u64,
    size: u64,
}

struct Reader<'a> {
    file: BufReader<File>,
    at: u64,
    path: &'a Path,
}

impl Reader<'_> {
    fn corrupt(&self, problem: impl Into<String>) -> LmError {
        LmError::Corrupt { file: self.path.to_path_buf(), problem: problem.into() }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], LmError> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(|_| self.corrupt(format!("it ends at byte {} within its header", self.at)))?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, LmError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, LmError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn count(&mut self, what: &str) -> Result<usize, LmError> {
        let count = self.u64()?;
        if count > MOST {
            return Err(self.corrupt(format!("it claims {count} {what}")));
        }
        Ok(count as usize)
    }

    fn text(&mut self) -> Result<String, LmError> {
        let length = self.count("bytes in a string")?;
        let mut bytes = Vec::new();
        let got = (&mut self.file).take(length as u64).read_to_end(&mut bytes);
        if !got.is_ok_and(|got| got == length) {
            return Err(self.corrupt("it ends within a string of its header"));
        }
        self.at += length as u64;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn value(&mut self, kind: u32) -> Result<Value, LmError> {
        Ok(match kind {
            0 => self.bytes::<1>()?[0].into(),
            1 => (self.bytes::<1>()?[0] as i8).into(),
            2 => u16::from_le_bytes(self.bytes()?).into(),
            3 => i16::from_le_bytes(self.bytes()?).into(),
            4 => self.u32()?.into(),
            5 => i32::from_le_bytes(self.bytes()?).into(),
            6 => f32::from_le_bytes(self.bytes()?).into(),
            7 => (self.bytes::<1>()?[0] != 0).into(),
            8 => self.text()?.into(),
            9 => {
                let kind = self.u32()?;
                if kind == 9 {
                    return Err(self.corrupt("it has an array of arrays in its metadata"));
                }
                let count = self.count("entries in an array")?;
                let mut values = Vec::new();
                for _ in 0..count {
                    values.push(self.value(kind)?);
                }
                values.into()
            }
            10 => self.u64()?.into(),
            11 => i64::from_le_bytes(self.bytes()?).into(),
            12 => f64::from_le_bytes(self.bytes()?).into(),
            other => return Err(self.corrupt(format!("metadata type {other} is not known"))),
        })
    }
}

impl Gguf {
    /// Reads the header.
    ///
    /// # Errors
    /// A file that is no GGUF, of another version, or cut short.
    pub fn open(path: &Path) -> Result<Self, LmError> {
        let failed = |source| LmError::File { file: path.to_path_buf(), source };
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut reader = Reader { file: BufReader::new(file), at: 0, path };
        let magic = reader.bytes::<4>()?;
        if &magic != b"GGUF" {
            return Err(reader.corrupt(format!("it begins with {magic:?} instead of `GGUF`, so it is no GGUF file")));
        }
        let version = reader.u32()?;
        if !(2..=3).contains(&version) {
            return Err(reader.corrupt(format!("GGUF version {version} is not known (2 and 3 are)")));
        }
        let (tensor_count, metadata_count) = (reader.count("tensors")?, reader.count("metadata")?);
        let mut metadata = BTreeMap::new();
        for _ in 0..metadata_count {
            let key = reader.text()?;
            let kind = reader.u32()?;
            metadata.insert(key, reader.value(kind)?);
        }
        let mut tensors = BTreeMap::new();
        for _ in 0..tensor_count {
            let name = reader.text()?;
            let dims = reader.u32()?;
            if dims > 4 {
                return Err(reader.corrupt(format!("tensor `{name}` has {dims} dimensions")));
            }
            let mut shape = Vec::new();
            for _ in 0..dims {
                shape.push(reader.count("elements in a dimension")?);
            }
            shape.reverse();
            let (code, offset) = (reader.u32()?, reader.u64()?);
            tensors.insert(name, Entry { shape, code, offset });
        }
        let alignment = metadata.get("general.alignment").and_then(Value::as_u64).unwrap_or(32).max(1);
        let base = reader.at.next_multiple_of(alignment);
        Ok(Self { path: path.to_path_buf(), metadata, tensors, base, size })
    }

    /// Names of the tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A tensor's shape, outermost dimension first.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|entry| entry.shape.as_slice())
    }

    /// A tensor's shape and numbers.
    ///
    /// # Errors
    /// A tensor that is missing, of a format that is not read, or beyond the file's end.
    pub fn read(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), LmError> {
        let corrupt = |problem| LmError::Corrupt { file: self.path.clone(), problem };
        let failed = |source| LmError::File { file: self.path.clone(), source };
        let Some(entry) = self.tensors.get(name) else {
            return Err(LmError::MissingTensor { file: self.path.clone(), tensor: name.to_string() });
        };
        let Some(format) = Format::from_code(entry.code) else {
            return Err(LmError::Precision {
                file: self.path.clone(),
                tensor: name.to_string(),
                found: format!("ggml type {}", entry.code),
                readable: READABLE,
            });
        };
        let (numbers, bytes_each) = format.block();
        let elements = entry.shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim as u64)).unwrap_or(u64::MAX);
        let row = entry.shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(numbers) {
            return Err(corrupt(format!("tensor `{name}` has rows of {row}, which are no whole blocks of {numbers}")));
        }
        let length = (elements / numbers as u64).saturating_mul(bytes_each as u64);
        let start = self.base.saturating_add(entry.offset);
        if start.saturating_add(length) > self.size {
            let end = start.saturating_add(length);
            return Err(corrupt(format!("tensor `{name}` ends at byte {end} of {}; the file was cut short", self.size)));
        }
        let mut file = File::open(&self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        let mut bytes = vec![0; length as usize];
        file.read_exact(&mut bytes).map_err(failed)?;
        Ok((entry.shape.clone(), format.values(&bytes)))
    }
}
