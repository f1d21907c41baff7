//! Gemma Scope: `params.npz` with the arrays of a JumpReLU dictionary, their names in any letter case.
//!
//! `W_enc [d, n]`, `W_dec [n, d]`, `b_enc`, `b_dec`, `threshold [n]`; the encoder sees x itself, so
//! `W_encᵀ b_dec` moves between the biases on reading and writing.
//!
//! # Source
//! Lieberum et al. 2024, arXiv 2408.05147, and its tutorial's `JumpReLUSAE`.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use npyz::WriterBuilder;
use sememe::dictionary::{Dictionary, DictionaryKind, JumpRelu, RawWeights, Widths};
use serde_json::{Map, Value};
use zip::write::{SimpleFileOptions, ZipWriter};

use super::arrays::{Array, Arrays};
use super::{Format, InteropError, cannot_write, write_bytes};

fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("params.npz") } else { path.into() }
}

/// The dictionary in the file or folder.
pub(super) fn read(path: &Path, device: &Device) -> Result<(Dictionary, Map<String, Value>), InteropError> {
    let path = file_of(path);
    let content = |message: String| InteropError::Content { path: path.clone(), message };
    let bytes = super::read_bytes(&path)?;
    let archive = zip::ZipArchive::new(Cursor::new(&bytes)).map_err(|error| content(format!("not an .npz file, or damaged ({error})")))?;
    let mut by_name = BTreeMap::new();
    for name in archive.file_names().filter_map(|name| name.strip_suffix(".npy")) {
        let array = crate::source::read(&path, Some(name)).map_err(|error| content(error.to_string()))?;
        let (rows, columns) = (array.matrix.nrows(), array.matrix.ncols());
        let values = (0..rows * columns).map(|at| array.matrix[(at / columns, at % columns)] as f32).collect();
        by_name.insert(name.to_lowercase(), Array { shape: array.shape, values });
    }
    let mut arrays = Arrays::new(&path, by_name);
    let encoder = arrays.take("w_enc", 2)?;
    let [d, n] = [encoder.shape[0], encoder.shape[1]];
    let raw = RawWeights {
        hidden: None,
        widths: Widths::same(d),
        w_enc: encoder.transposed().values,
        b_enc: arrays.take_shaped("b_enc", &[n])?,
        w_dec: arrays.take_shaped("w_dec", &[n, d])?,
        b_dec: arrays.take_shaped("b_dec", &[d])?,
        threshold: Some(arrays.take_shaped("threshold", &[n])?),
        r_mag: None,
        b_mag: None,
        w_skip: None,
    };
    arrays.finish()?;
    let kind = DictionaryKind::JumpRelu(JumpRelu { n, ..JumpRelu::default() });
    let dictionary = Dictionary::from_raw(kind, raw.moved_centre(1.0), device)
        .map_err(|source| InteropError::Dictionary { path: path.clone(), source })?;
    Ok((dictionary, Map::new()))
}

/// Writes `params.npz` into the folder.
pub(super) fn write(dictionary: &Dictionary, folder: &Path) -> Result<(), InteropError> {
    let path = folder.join("params.npz");
    let possible = "jumprelu, and a trained batchtopk or matryoshka";
    let DictionaryKind::JumpRelu(_) = &dictionary.kind else { return Err(cannot_write(dictionary, &path, Format::GemmaScope, possible)) };
    let raw = dictionary.raw().moved_centre(-1.0);
    let (n, d) = (raw.n(), raw.widths.input);
    let arrays = [
        ("W_enc", Array::matrix(n, d, raw.w_enc).transposed()),
        ("W_dec", Array::matrix(n, d, raw.w_dec)),
        ("b_enc", Array::vector(raw.b_enc)),
        ("b_dec", Array::vector(raw.b_dec)),
        ("threshold", Array::vector(raw.threshold.unwrap_or_default())),
    ];
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let bytes = (|| {
        for (name, array) in &arrays {
            archive.start_file(format!("{name}.npy"), SimpleFileOptions::default().large_file(true))?;
            let shape: Vec<u64> = array.shape.iter().map(|&size| size as u64).collect();
            let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(&mut archive).begin_nd()?;
            writer.extend(array.values.iter().copied())?;
            writer.finish()?;
        }
        archive.finish().map_err(std::io::Error::other)
    })()
    .map_err(|source: std::io::Error| InteropError::Io { path: path.clone(), source })?;
    write_bytes(&path, &bytes.into_inner())
}
