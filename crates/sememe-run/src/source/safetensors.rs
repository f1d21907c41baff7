//! Safetensors files: one named tensor of floats or integers.

use safetensors::{Dtype, SafeTensors};

use super::{Raw, choose};

/// The tensor `key` of the file.
pub(super) fn read(bytes: &[u8], key: Option<&str>) -> Result<Raw, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| format!("not a .safetensors file, or damaged ({error})"))?;
    let mut names: Vec<String> = file.names().into_iter().map(str::to_string).collect();
    names.sort();
    let name = choose(key, &names)?;
    let tensor = file.tensor(name).map_err(|error| error.to_string())?;
    let data = tensor.data();
    macro_rules! as_f64 {
        ($Type:ty) => {
            data.as_chunks().0.iter().map(|bytes| <$Type>::from_le_bytes(*bytes) as f64).collect()
        };
    }
    let values = match tensor.dtype() {
        Dtype::F64 => as_f64!(f64),
        Dtype::F32 => as_f64!(f32),
        Dtype::F16 => data.as_chunks().0.iter().map(|bytes| f64::from(burn::tensor::f16::from_le_bytes(*bytes).to_f32())).collect(),
        Dtype::BF16 => data.as_chunks().0.iter().map(|bytes| f64::from(burn::tensor::bf16::from_le_bytes(*bytes).to_f32())).collect(),
        Dtype::U8 | Dtype::BOOL => as_f64!(u8),
        Dtype::I8 => as_f64!(i8),
        Dtype::I16 => as_f64!(i16),
        Dtype::I32 => as_f64!(i32),
        Dtype::I64 => as_f64!(i64),
        other => return Err(format!("tensor `{name}` is {other:?}; known are floats and integers of up to 64 bits")),
    };
    Ok(Raw { shape: tensor.shape().to_vec(), values, names: None })
}
