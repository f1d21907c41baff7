//! The codes of a batch: which latents are active and how strongly, as a ragged list or as a matrix.

use std::sync::Arc;

use burn::tensor::Tensor;
use sememe_kernels::{Pattern, sparse_decode};

/// z of a batch of N rows.
#[derive(Clone, Debug)]
pub enum Codes {
    /// The active latents alone.
    Sparse {
        /// One an entry of the pattern: `[entries]`.
        values: Tensor<1>,
        /// Which latents of which rows.
        pattern: Arc<Pattern>,
    },
    /// `[N, n]`, mostly 0.
    Dense(Tensor<2>),
}

impl Codes {
    /// `z W`, `matrix [n, d]`: `[N, d]`.
    pub fn times(&self, matrix: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Sparse { values, pattern } => sparse_decode(values.clone(), matrix, pattern),
            Self::Dense(z) => z.clone().matmul(matrix),
        }
    }

    /// The active latents, read to the host: entries that are not 0, and their values.
    pub fn active(&self) -> (Arc<Pattern>, Vec<f32>) {
        match self {
            Self::Sparse { values, pattern } => {
                let values: Vec<f32> = values.to_data().iter::<f32>().collect();
                if values.iter().all(|&value| value != 0.0) {
                    return (pattern.clone(), values);
                }
                let (mut starts, mut latents, mut kept) = (vec![0], Vec::new(), Vec::new());
                for row in 0..pattern.rows() {
                    let entries = pattern.row(row).iter().zip(&values[pattern.range(row)]);
                    for (&latent, &value) in entries.filter(|(_, value)| **value != 0.0) {
                        latents.push(latent);
                        kept.push(value);
                    }
                    starts.push(latents.len() as u32);
                }
                (Arc::new(Pattern::new(starts, latents, pattern.n())), kept)
            }
            Self::Dense(z) => {
                let [_, n] = z.dims();
                let all: Vec<f32> = z.to_data().iter::<f32>().collect();
                let (mut starts, mut latents, mut values) = (vec![0], Vec::new(), Vec::new());
                for row in all.chunks(n) {
                    for (latent, &value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                        latents.push(latent as u32);
                        values.push(value);
                    }
                    starts.push(latents.len() as u32);
                }
                (Arc::new(Pattern::new(starts, latents, n)), values)
            }
        }
    }

    /// `[N, n]`.
    pub fn dense(&self) -> Tensor<2> {
        match self {
            Self::Sparse { values, pattern } => {
                let device = values.device();
                let (active, at) = (values.to_data().iter::<f32>().collect::<Vec<_>>(), pattern.row_of_entries());
                let mut z = vec![0.0_f32; pattern.rows() * pattern.n()];
                for ((row, &latent), value) in at.into_iter().zip(pattern.latents()).zip(active) {
                    z[row as usize * pattern.n() + latent as usize] = value;
                }
                Tensor::from_data(burn::tensor::TensorData::new(z, [pattern.rows(), pattern.n()]), &device)
            }
            Self::Dense(z) => z.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn both_forms_agree() {
        let device = Device::flex();
        let z = Tensor::<2>::from_floats([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]], &device);
        let matrix = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &device);
        let (pattern, values) = Codes::Dense(z.clone()).active();
        assert_eq!((pattern.starts(), pattern.latents()), (&[0, 1, 3][..], &[1, 0, 2][..]));
        let sparse = Codes::Sparse { values: Tensor::from_floats(values.as_slice(), &device), pattern };
        sparse.dense().into_data().assert_eq(&z.clone().into_data(), true);
        // An entry of a list may be 0; it is not active.
        let listed = Pattern::new(vec![0, 2, 4], vec![1, 2, 0, 2], 3);
        let listed = Codes::Sparse { values: Tensor::from_floats([2.0, 0.0, 1.0, 3.0], &device), pattern: Arc::new(listed) };
        let (active, values) = listed.active();
        assert_eq!((active.starts(), active.latents()), (&[0, 1, 3][..], &[1, 0, 2][..]));
        assert_eq!(values, [2.0, 1.0, 3.0]);
        sparse.times(matrix.clone()).into_data().assert_eq(&Codes::Dense(z).times(matrix).into_data(), true);
    }
}
