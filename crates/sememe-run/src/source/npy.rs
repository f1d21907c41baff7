//! NumPy arrays: .npy, and .npz archives of them; floats, integers and booleans, either byte order, C or Fortran order.

use std::io::Cursor;

use npyz::{DType, NpyFile, Order, TypeChar};

use super::{Raw, choose};

/// The array of an .npy file.
pub(super) fn read(bytes: &[u8]) -> Result<Raw, String> {
    let file = NpyFile::new(Cursor::new(bytes)).map_err(|error| format!("not an .npy file, or damaged ({error})"))?;
    values(file)
}

/// The array `key` of an .npz file.
pub(super) fn read_archive(bytes: &[u8], key: Option<&str>) -> Result<Raw, String> {
    let damaged = |error: zip::result::ZipError| format!("not an .npz file, or damaged ({error})");
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
    let names: Vec<String> = archive.file_names().filter_map(|name| name.strip_suffix(".npy")).map(str::to_string).collect();
    let name = choose(key, &names)?.to_string();
    let entry = archive.by_name(&format!("{name}.npy")).map_err(damaged)?;
    values(NpyFile::new(entry).map_err(|error| format!("array `{name}` is damaged ({error})"))?)
}

fn values<R: std::io::Read>(file: NpyFile<R>) -> Result<Raw, String> {
    let shape: Vec<usize> = file.shape().iter().map(|&d| d as usize).collect();
    let order = file.order();
    let DType::Plain(kind) = file.dtype() else {
        return Err(format!("holds records of type {}; give plain numbers", file.dtype().descr()));
    };
    let truncated = |error: std::io::Error| format!("ends early or is damaged ({error})");
    macro_rules! as_f64 {
        ($Type:ty) => {
            file.data::<$Type>()
                .map_err(|error| error.to_string())?
                .map(|value| value.map(|value| value as f64))
                .collect::<Result<Vec<f64>, _>>()
                .map_err(truncated)?
        };
    }
    let flat: Vec<f64> = match (kind.type_char(), kind.size_field()) {
        (TypeChar::Float, 8) => as_f64!(f64),
        (TypeChar::Float, 4) => as_f64!(f32),
        (TypeChar::Uint, 1) => as_f64!(u8),
        (TypeChar::Uint, 2) => as_f64!(u16),
        (TypeChar::Uint, 4) => as_f64!(u32),
        (TypeChar::Uint, 8) => as_f64!(u64),
        (TypeChar::Int, 1) => as_f64!(i8),
        (TypeChar::Int, 2) => as_f64!(i16),
        (TypeChar::Int, 4) => as_f64!(i32),
        (TypeChar::Int, 8) => as_f64!(i64),
        (TypeChar::Bool, _) => file
            .data::<bool>()
            .map_err(|error| error.to_string())?
            .map(|value| value.map(|value| f64::from(u8::from(value))))
            .collect::<Result<Vec<f64>, _>>()
            .map_err(truncated)?,
        _ => return Err(format!("holds numbers of type {kind}; known are f4, f8, integers and booleans")),
    };
    Ok(Raw { values: if order == Order::Fortran { to_c_order(&flat, &shape) } else { flat }, shape, names: None })
}

/// Fortran order (first index fastest) to C order (last index fastest).
fn to_c_order(flat: &[f64], shape: &[usize]) -> Vec<f64> {
    let mut strides = vec![1; shape.len()];
    for d in 1..shape.len() {
        strides[d] = strides[d - 1] * shape[d - 1];
    }
    (0..flat.len())
        .map(|mut index| {
            let mut from = 0;
            for d in (0..shape.len()).rev() {
                from += index % shape[d] * strides[d];
                index /= shape[d];
            }
            flat[from]
        })
        .collect()
}
