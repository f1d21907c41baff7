//! A batch of token ids, shorter rows padded at their end.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

/// Token ids `[B, T]`. Attention is causal, so padding, which stands after a row's tokens, changes none of their activations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    ids: Vec<u32>,
    lengths: Vec<usize>,
    length: usize,
}

impl Tokens {
    /// The rows, padded with id 0 to the longest.
    pub fn new(rows: &[Vec<u32>]) -> Self {
        let length = rows.iter().map(Vec::len).max().unwrap_or(0);
        let padded = |row: &Vec<u32>| row.iter().copied().chain(std::iter::repeat_n(0, length - row.len())).collect::<Vec<_>>();
        Self { ids: rows.iter().flat_map(padded).collect(), lengths: rows.iter().map(Vec::len).collect(), length }
    }

    /// A batch of one row.
    pub fn one(row: Vec<u32>) -> Self {
        Self { lengths: vec![row.len()], length: row.len(), ids: row }
    }

    /// B.
    pub fn batch(&self) -> usize {
        self.lengths.len()
    }

    /// T, padding included.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Tokens in each row, padding excluded.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// All ids `[B·T]`, row by row.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// 1 at tokens and 0 at padding, `[B, T]`.
    pub fn mask(&self, device: &Device) -> Tensor<2, Bool> {
        let mask: Vec<bool> = self.lengths.iter().flat_map(|&own| (0..self.length).map(move |t| t < own)).collect();
        Tensor::from_data(TensorData::new(mask, [self.batch(), self.length]), device)
    }

    pub(crate) fn tensor(&self, device: &Device) -> Tensor<1, Int> {
        let ids: Vec<i32> = self.ids.iter().map(|&id| id as i32).collect();
        let count = ids.len();
        Tensor::from_data(TensorData::new(ids, [count]), device)
    }
}
