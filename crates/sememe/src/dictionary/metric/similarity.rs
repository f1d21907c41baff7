//! How alike two dictionaries are, and how alike the latents of one are, by cosines of decoder rows.
//!
//! With `C_ij = cos(a_i, b_j)`: MMCS `mean_i max_j C_ij`; Hungarian cosine
//! `mean C_{i,π(i)}` under the best one-to-one matching π of the smaller
//! dictionary into the larger. Collinearity of one dictionary:
//! `mean_i max_{j≠i} |C_ij|`.
//!
//! # Source
//! MMCS: Sharkey et al. 2022; one-to-one matching: Paulo & Belrose 2025, arXiv 2501.16615.

use burn::tensor::Tensor;
use sememe_truth::Matrix;
use sememe_truth::metric::largest_assignment;
use serde::{Deserialize, Serialize};

/// Scores of a pair of dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Similarity {
    /// Mean over the first dictionary's latents of the largest cosine to the second's.
    pub mmcs: f64,
    /// Mean cosine of the best one-to-one matching.
    pub hungarian_cosine: f64,
}

/// Rows over their norms; a row of zeros stays.
fn unit(rows: Tensor<2>) -> Tensor<2> {
    let rows = if rows.device().is_autodiff() { rows.inner() } else { rows };
    let norms = (rows.clone() * rows.clone()).sum_dim(1).sqrt();
    rows / norms.clamp_min(1e-12)
}

/// MMCS and Hungarian cosine of decoders `a [n_a, d]`, `b [n_b, d]`.
///
/// The matching takes `O(n³)` operations: some seconds for 4096 latents.
pub fn similarity(a: Tensor<2>, b: Tensor<2>) -> Similarity {
    let cosines = unit(a).matmul(unit(b).transpose());
    let [rows, columns] = cosines.dims();
    let values: Vec<f32> = cosines.into_data().iter().collect();
    let largest = values.chunks(columns).map(|row| f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max)));
    let mmcs = largest.sum::<f64>() / rows as f64;
    let gain = Matrix::from_fn(rows, columns, |i, j| f64::from(values[i * columns + j]));
    let matched: Vec<f64> = largest_assignment(&gain).into_iter().enumerate().filter_map(|(i, j)| j.map(|j| gain[(i, j)])).collect();
    Similarity { mmcs, hungarian_cosine: matched.iter().sum::<f64>() / matched.len() as f64 }
}

/// Rows whose cosines are formed at once.
const BLOCK: usize = 1024;

/// Of each latent of `decoder [n, d]` the largest |cosine| to another, averaged; 0 for a single latent.
pub fn collinearity(decoder: Tensor<2>) -> f64 {
    let rows = unit(decoder);
    let n = rows.dims()[0];
    if n < 2 {
        return 0.0;
    }
    let mut total = 0.0;
    for first in (0..n).step_by(BLOCK) {
        let some = BLOCK.min(n - first);
        let cosines: Vec<f32> = rows.clone().narrow(0, first, some).matmul(rows.clone().transpose()).into_data().iter().collect();
        for (i, row) in cosines.chunks(n).enumerate() {
            let others = row.iter().enumerate().filter(|(j, _)| *j != first + i).map(|(_, cosine)| cosine.abs());
            total += f64::from(others.fold(0.0, f32::max));
        }
    }
    total / n as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn similarity_by_hand() {
        let device = Device::flex();
        let a = Tensor::<2>::from_floats([[2.0, 0.0], [1.0, 1.0]], &device);
        let b = Tensor::<2>::from_floats([[3.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], &device);
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let found = similarity(a.clone(), b.clone());
        assert!((found.mmcs - (1.0 + half) / 2.0).abs() < 1e-6);
        assert!((found.hungarian_cosine - (1.0 + half) / 2.0).abs() < 1e-6);
        // Both rows of a prefer the first of b, but only one can have it.
        let rival = Tensor::<2>::from_floats([[1.0, 0.0], [0.0, -1.0]], &device);
        let found = similarity(a, rival);
        assert!((found.mmcs - (1.0 + half) / 2.0).abs() < 1e-6);
        assert!((found.hungarian_cosine - (0.0 + half) / 2.0).abs() < 1e-6);
        assert!((collinearity(b) - (1.0 + 0.0 + 1.0) / 3.0).abs() < 1e-6);
    }
}
