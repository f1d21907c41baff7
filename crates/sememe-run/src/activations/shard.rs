//! A shard: activations of some tokens as a safetensors file, and as rows in memory.

use std::fs::File;
use std::path::Path;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};
use serde::{Deserialize, Serialize};

use super::{ActivationsError, at};

/// How activations are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    F32,
    /// 16 bits, 10 of them mantissa; nothing above 65504.
    F16,
    /// 16 bits, 7 of them mantissa.
    #[default]
    Bf16,
}

impl Precision {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }

    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::BF16,
        }
    }

    fn of(dtype: Dtype) -> Option<Self> {
        [Self::F32, Self::F16, Self::Bf16].into_iter().find(|precision| precision.dtype() == dtype)
    }

    /// Appends `values` as stored.
    pub(crate) fn encode(self, values: &[f32], out: &mut Vec<u8>) {
        match self {
            Self::F32 => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::F16 => {
                let mut rounded = vec![f16::ZERO; values.len()];
                rounded.convert_from_f32_slice(values);
                out.extend(rounded.iter().flat_map(|value| value.to_le_bytes()));
            }
            Self::Bf16 => {
                let mut rounded = vec![bf16::ZERO; values.len()];
                rounded.convert_from_f32_slice(values);
                out.extend(rounded.iter().flat_map(|value| value.to_le_bytes()));
            }
        }
    }

    /// Reads stored numbers, each times `factor`.
    pub(crate) fn decode(self, bytes: &[u8], factor: f32, out: &mut [f32]) {
        match self {
            Self::F32 => {
                out.iter_mut().zip(bytes.as_chunks::<4>().0).for_each(|(out, bytes)| *out = factor * f32::from_le_bytes(*bytes));
            }
            Self::F16 => {
                out.iter_mut().zip(bytes.as_chunks::<2>().0).for_each(|(out, bytes)| *out = factor * f16::from_le_bytes(*bytes).to_f32());
            }
            // The upper half of a single-precision number.
            Self::Bf16 => out
                .iter_mut()
                .zip(bytes.as_chunks::<2>().0)
                .for_each(|(out, bytes)| *out = factor * f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16)),
        }
    }
}

/// Rows of some tokens: for each hook their activations as stored, and which tokens they are.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// One a hook: `[tokens · width]` numbers as stored.
    pub activations: Vec<Vec<u8>>,
    /// The tokens.
    pub token_ids: Vec<u32>,
    /// The number of each token's context.
    pub contexts: Vec<u32>,
    /// Its place in the context, from 0.
    pub positions: Vec<u32>,
}

const TOKENS: [&str; 3] = ["token_ids", "contexts", "positions"];

impl Chunk {
    /// No tokens yet, at so many hooks.
    pub fn new(hooks: usize) -> Self {
        Self { activations: vec![Vec::new(); hooks], ..Self::default() }
    }

    /// Tokens.
    pub fn len(&self) -> usize {
        self.token_ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.token_ids.is_empty()
    }

    /// Row `row` at hook `hook` as numbers times `factor`.
    pub fn row(&self, hook: usize, row: usize, precision: Precision, factor: f32, out: &mut [f32]) {
        let bytes = out.len() * precision.bytes();
        precision.decode(&self.activations[hook][row * bytes..(row + 1) * bytes], factor, out);
    }

    /// Exchanges two rows, `row_bytes` wide at each hook.
    pub(crate) fn swap(&mut self, a: usize, b: usize, row_bytes: &[usize]) {
        if a == b {
            return;
        }
        let (low, high) = (a.min(b), a.max(b));
        for (bytes, &width) in self.activations.iter_mut().zip(row_bytes) {
            let (left, right) = bytes.split_at_mut(high * width);
            left[low * width..(low + 1) * width].swap_with_slice(&mut right[..width]);
        }
        for list in [&mut self.token_ids, &mut self.contexts, &mut self.positions] {
            list.swap(a, b);
        }
    }

    /// Keeps the first `tokens`.
    pub(crate) fn truncate(&mut self, tokens: usize, row_bytes: &[usize]) {
        for (bytes, &width) in self.activations.iter_mut().zip(row_bytes) {
            bytes.truncate(tokens * width);
        }
        for list in [&mut self.token_ids, &mut self.contexts, &mut self.positions] {
            list.truncate(tokens);
        }
    }

    /// Writes rows `from..to` as a shard, under another name first.
    pub(crate) fn write(
        &self,
        (from, to): (usize, usize),
        hooks: &[(String, usize)],
        precision: Precision,
        path: &Path,
    ) -> Result<(), ActivationsError> {
        let broken = |error: safetensors::SafeTensorError| ActivationsError::Io { path: path.into(), source: std::io::Error::other(error) };
        let lists: Vec<Vec<u8>> = [&self.token_ids, &self.contexts, &self.positions]
            .map(|list| list[from..to].iter().flat_map(|value| value.to_le_bytes()).collect())
            .into();
        let mut views = Vec::new();
        for ((name, width), bytes) in hooks.iter().zip(&self.activations) {
            let row = width * precision.bytes();
            let view = TensorView::new(precision.dtype(), vec![to - from, *width], &bytes[from * row..to * row]).map_err(broken)?;
            views.push((name.as_str(), view));
        }
        for (name, bytes) in TOKENS.into_iter().zip(&lists) {
            views.push((name, TensorView::new(Dtype::U32, vec![to - from], bytes).map_err(broken)?));
        }
        let part = path.with_extension("part");
        serialize_to_file(views, None, &part).map_err(broken)?;
        at(&part, File::open(&part).and_then(|file| file.sync_all()))?;
        at(path, std::fs::rename(&part, path))
    }

    /// Reads a shard with these hooks.
    pub(crate) fn read(hooks: &[(String, usize)], precision: Precision, path: &Path) -> Result<Self, ActivationsError> {
        let bytes = at(path, std::fs::read(path))?;
        let damaged = |message: String| ActivationsError::Damaged { path: path.into(), message };
        let file = SafeTensors::deserialize(&bytes).map_err(|error| damaged(error.to_string()))?;
        let list = |name: &str| {
            let view = file.tensor(name).map_err(|error| damaged(error.to_string()))?;
            if view.dtype() != Dtype::U32 {
                return Err(damaged(format!("tensor `{name}` is {:?}, expected U32", view.dtype())));
            }
            Ok(view.data().as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect::<Vec<u32>>())
        };
        let [token_ids, contexts, positions] = [list(TOKENS[0])?, list(TOKENS[1])?, list(TOKENS[2])?];
        let tokens = token_ids.len();
        if contexts.len() != tokens || positions.len() != tokens {
            return Err(damaged("its tensors hold different numbers of tokens".into()));
        }
        let mut activations = Vec::new();
        for (name, width) in hooks {
            let view = file.tensor(name).map_err(|error| damaged(error.to_string()))?;
            if view.shape() != [tokens, *width] || Precision::of(view.dtype()) != Some(precision) {
                return Err(damaged(format!(
                    "tensor `{name}` is {:?} {:?}, expected {precision:?} {:?}",
                    view.dtype(),
                    view.shape(),
                    [tokens, *width]
                )));
            }
            activations.push(view.data().to_vec());
        }
        Ok(Self { activations, token_ids, contexts, positions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(precision: Precision) -> Chunk {
        let mut bytes = Vec::new();
        precision.encode(&[1.0, -2.5, 0.25, 3.0, 7.0, -0.5], &mut bytes);
        Chunk { activations: vec![bytes], token_ids: vec![5, 6, 7], contexts: vec![0, 0, 1], positions: vec![1, 2, 1] }
    }

    #[test]
    fn a_shard_is_read_as_it_was_written_in_every_precision() {
        let hooks = [("0.resid_post".to_string(), 2)];
        for precision in [Precision::F32, Precision::F16, Precision::Bf16] {
            let path = std::env::temp_dir().join(format!("sememe-shard-{}-{precision:?}.safetensors", std::process::id()));
            let mut written = chunk(precision);
            written.swap(0, 2, &[2 * precision.bytes()]);
            assert!(written.write((0, 2), &hooks, precision, &path).is_ok());
            let read = Chunk::read(&hooks, precision, &path).expect("a shard");
            let mut row = [0.0; 2];
            read.row(0, 0, precision, 2.0, &mut row);
            assert_eq!((row, read.token_ids, read.contexts, read.positions), ([14.0, -1.0], vec![7, 6], vec![1, 0], vec![1, 2]));
            let wrong = Chunk::read(&[("0.resid_post".to_string(), 3)], precision, &path).map(|_| ()).expect_err("another width");
            assert!(wrong.to_string().contains("expected"), "{wrong}");
            let _ = std::fs::remove_file(&path);
        }
    }
}
