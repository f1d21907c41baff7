//! PyTorch's `.pt` files of named tensors: a zip archive of a pickle and the raw numbers of each storage.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use safetensors::Dtype;
use zip::ZipArchive;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::arrays::{Array, Arrays, floats};
use super::pickle::{self, Value};
use super::{InteropError, read_bytes, write_bytes};

/// The tensors of a saved state dict; entries that are no tensors (a number k) count as arrays of no dimension.
pub(super) fn read(path: &Path) -> Result<Arrays<'_>, InteropError> {
    let content = |message: String| InteropError::Content { path: path.into(), message };
    let bytes = read_bytes(path)?;
    let by_name = from_bytes(&bytes).map_err(|message| content(format!("not a .pt file of named tensors, or damaged ({message})")))?;
    Ok(Arrays::new(path, by_name))
}

fn from_bytes(bytes: &[u8]) -> Result<BTreeMap<String, Array>, String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let pickled = archive.file_names().find(|name| name.ends_with("/data.pkl")).map(str::to_string).ok_or("it holds no data.pkl")?;
    let root = pickled.trim_end_matches("data.pkl").to_string();
    let mut entry = |name: &str| {
        let mut content = Vec::new();
        let mut file = archive.by_name(name).map_err(|error| format!("`{name}`: {error}"))?;
        file.read_to_end(&mut content).map_err(|error| format!("`{name}`: {error}"))?;
        Ok::<_, String>(content)
    };
    let Value::Dict(pairs) = pickle::read(&entry(&pickled)?)? else { return Err("it holds no dictionary of tensors".into()) };
    let mut arrays = BTreeMap::new();
    for (key, value) in pairs {
        let name = key.text().ok_or("a tensor has no name")?.to_string();
        let array = match &value {
            Value::Int(number) => Array { shape: vec![], values: vec![*number as f32] },
            Value::Float(number) => Array { shape: vec![], values: vec![*number as f32] },
            value => tensor(value, &mut |storage| entry(&format!("{root}data/{storage}"))).map_err(|error| format!("`{name}`: {error}"))?,
        };
        arrays.insert(name, array);
    }
    Ok(arrays)
}

/// `_rebuild_tensor_v2(storage, offset, sizes, strides, …)`, perhaps within `_rebuild_parameter(tensor, …)`.
fn tensor(value: &Value, storage_bytes: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>) -> Result<Array, String> {
    let Value::Call(function, arguments) = value else { return Err("is no tensor".into()) };
    match (function.as_str(), arguments.as_slice()) {
        ("torch._utils._rebuild_parameter", [inner, ..]) => tensor(inner, storage_bytes),
        ("torch._utils._rebuild_tensor_v2", [Value::Persistent(storage), offset, sizes, strides, ..]) => {
            let Some([_, Value::Global(kind), key, ..]) = storage.list() else { return Err("has a storage of an unknown form".into()) };
            let dtype = match kind.as_str() {
                "torch.DoubleStorage" => Dtype::F64,
                "torch.FloatStorage" => Dtype::F32,
                "torch.HalfStorage" => Dtype::F16,
                "torch.BFloat16Storage" => Dtype::BF16,
                "torch.LongStorage" => Dtype::I64,
                "torch.IntStorage" => Dtype::I32,
                "torch.BoolStorage" | "torch.ByteStorage" => Dtype::U8,
                other => return Err(format!("is of type {other}; known are floats and integers")),
            };
            let raw = storage_bytes(key.text().ok_or("has a storage without a name")?)?;
            let raw = floats(&raw, dtype).ok_or("is of an unknown type")?;
            let numbers = |value: &Value| {
                value.list()?.iter().map(|number| number.int().and_then(|number| usize::try_from(number).ok())).collect::<Option<Vec<_>>>()
            };
            let (Some(shape), Some(strides)) = (numbers(sizes), numbers(strides)) else { return Err("has no shape".into()) };
            let offset = offset.int().and_then(|offset| usize::try_from(offset).ok()).ok_or("has no offset")?;
            gather(&raw, offset, &shape, &strides).map(|values| Array { shape, values })
        }
        (other, _) => Err(format!("is built by {other}, which is unknown")),
    }
}

/// The elements in C order of a strided view.
fn gather(raw: &[f32], offset: usize, shape: &[usize], strides: &[usize]) -> Result<Vec<f32>, String> {
    if shape.len() != strides.len() {
        return Err("has a shape and strides of different lengths".into());
    }
    let count: usize = shape.iter().product();
    let last = offset + shape.iter().zip(strides).map(|(size, stride)| size.saturating_sub(1) * stride).sum::<usize>();
    if count > 0 && last >= raw.len() {
        return Err("reaches beyond its storage".into());
    }
    Ok((0..count)
        .map(|mut index| {
            let mut at = offset;
            for (size, stride) in shape.iter().zip(strides).rev() {
                at += index % size * stride;
                index /= size;
            }
            raw[at]
        })
        .collect())
}

/// Writes named tensors as `torch.save` of a state dict would: those named in `integers` as 32-bit integers, the others
/// in single precision.
pub(super) fn write(path: &Path, arrays: &[(&str, Array)], integers: &[&str]) -> Result<(), InteropError> {
    let content = |message: String| InteropError::Content { path: path.into(), message };
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut add = |name: String, bytes: &[u8]| {
        archive.start_file(name, options).map_err(|error| content(error.to_string()))?;
        archive.write_all(bytes).map_err(|error| content(error.to_string()))
    };
    add("archive/data.pkl".into(), &pickled(arrays, integers))?;
    add("archive/byteorder".into(), b"little")?;
    for (storage, (name, array)) in arrays.iter().enumerate() {
        let is_integer = integers.contains(name);
        let to_bytes = |value: &f32| if is_integer { (value.round() as i32).to_le_bytes() } else { value.to_le_bytes() };
        let bytes: Vec<u8> = array.values.iter().flat_map(to_bytes).collect();
        add(format!("archive/data/{storage}"), &bytes)?;
    }
    add("archive/version".into(), b"3\n")?;
    let bytes = archive.finish().map_err(|error| content(error.to_string()))?.into_inner();
    write_bytes(path, &bytes)
}

/// The pickle of a dictionary of tensors, each the whole of its own storage.
fn pickled(arrays: &[(&str, Array)], integers: &[&str]) -> Vec<u8> {
    let mut out = vec![0x80, 2, b'}', b'('];
    let text = |out: &mut Vec<u8>, text: &str| {
        out.push(b'X');
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.as_bytes());
    };
    let int = |out: &mut Vec<u8>, value: usize| {
        out.extend([0x8a, 8]);
        out.extend((value as i64).to_le_bytes());
    };
    for (storage, (name, array)) in arrays.iter().enumerate() {
        text(&mut out, name);
        out.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut out, "storage");
        let storage_kind = if integers.contains(name) { "IntStorage" } else { "FloatStorage" };
        out.extend(format!("ctorch\n{storage_kind}\n").bytes());
        text(&mut out, &storage.to_string());
        text(&mut out, "cpu");
        int(&mut out, array.values.len());
        out.extend(b"tQ");
        int(&mut out, 0);
        out.push(b'(');
        array.shape.iter().for_each(|&size| int(&mut out, size));
        out.extend(b"t(");
        for dimension in 0..array.shape.len() {
            int(&mut out, array.shape[dimension + 1..].iter().product());
        }
        out.extend(b"t\x89ccollections\nOrderedDict\n)RtR");
    }
    out.extend(b"u.");
    out
}
