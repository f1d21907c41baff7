//! A model as a Hugging Face folder: `config.json` and `model.safetensors`, which other programs read as well.

use std::collections::BTreeMap;
use std::path::Path;

use half::{bf16, f16};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::json;

use crate::weights::drain;
use crate::{LmError, Transformer};

/// How saved numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits.
    F32,
    /// 16 bits, 10 of them mantissa.
    F16,
    /// 16 bits, 7 of them mantissa.
    Bf16,
}

/// Writes the model into `folder`, which is made if it is not there.
///
/// # Errors
/// A folder that cannot be written.
pub fn save(model: &Transformer, folder: &Path, precision: Precision) -> Result<(), LmError> {
    let failed = |file: &Path| {
        let file = file.to_path_buf();
        move |source| LmError::File { file, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let description = model.description();
    let rules = (description.family.rules)(description);
    let (dtype, name) = match precision {
        Precision::F32 => (Dtype::F32, "float32"),
        Precision::F16 => (Dtype::F16, "float16"),
        Precision::Bf16 => (Dtype::BF16, "bfloat16"),
    };
    let bytes = |value: f32| match precision {
        Precision::F32 => value.to_le_bytes().to_vec(),
        Precision::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        Precision::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
    };
    let tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = drain(model, &rules)
        .into_iter()
        .map(|(name, (shape, values))| (name, (shape, values.into_iter().flat_map(bytes).collect())))
        .collect();
    let file = folder.join("model.safetensors");
    let broken = |error: safetensors::SafeTensorError| LmError::File { file: file.clone(), source: std::io::Error::other(error) };
    let views: Vec<(String, TensorView<'_>)> = tensors
        .iter()
        .map(|(name, (shape, bytes))| TensorView::new(dtype, shape.clone(), bytes).map(|view| (name.clone(), view)))
        .collect::<Result<_, _>>()
        .map_err(broken)?;
    let metadata = [("format".to_string(), "pt".to_string())].into_iter().collect();
    let serialized = safetensors::serialize(views, Some(metadata)).map_err(broken)?;
    std::fs::write(&file, serialized).map_err(failed(&file))?;
    let mut config = description.config.clone();
    config["torch_dtype"] = json!(name);
    let file = folder.join("config.json");
    std::fs::write(&file, format!("{config:#}\n")).map_err(failed(&file))
}
