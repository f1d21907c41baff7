//! Sufficient nonlinearity and conditioning, checked on samples of the Jacobian.
//!
//! The assumption asks, for each observed variable i, for `‖S_i‖₀` points at
//! which the rows `∂g_i/∂z` are linearly independent. On samples that is the
//! numerical rank of the matrix of sampled rows, restricted to the support: it
//! is met iff the rank equals `‖S_i‖₀`. A generator must also be injective and
//! well conditioned, or recovery is capped for reasons that have nothing to do
//! with the method: [`conditioning`] reports the singular values of J.
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, assumption 1.

use serde::{Deserialize, Serialize};

use super::Support;
use crate::Matrix;

/// The sampled rank of one observed variable's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRank {
    /// Numerical rank of its sampled rows.
    pub rank: usize,
    /// `‖S_i‖₀`, the rank that the assumption asks for.
    pub needed: usize,
}

impl RowRank {
    /// Whether the assumption is met on the samples.
    pub fn is_sufficient(self) -> bool {
        self.rank >= self.needed
    }
}

/// The rank of each observed variable's rows over samples `J [dx, dz]`; singular values below `tolerance` times the largest count as 0.
pub fn row_ranks(jacobians: &[Matrix], support: &Support, tolerance: f64) -> Vec<RowRank> {
    (0..support.rows())
        .map(|i| {
            let latents: Vec<usize> = support.row_set(i).into_iter().collect();
            let rows = Matrix::from_fn(jacobians.len(), latents.len(), |sample, c| jacobians[sample][(i, latents[c])]);
            let values = singular_values(&rows);
            let largest = values.first().copied().unwrap_or(0.0);
            RowRank { rank: values.iter().filter(|&&value| value > tolerance * largest && value > 0.0).count(), needed: latents.len() }
        })
        .collect()
}

/// The singular values of J over samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditioning {
    /// The smallest singular value seen.
    pub smallest: f64,
    /// The largest singular value seen.
    pub largest: f64,
    /// The 5 % quantile over samples of smallest over largest.
    pub ratio_5_percent: f64,
}

/// Conditioning of a generator over samples `J [dx, dz]`; `None` without samples.
pub fn conditioning(jacobians: &[Matrix]) -> Option<Conditioning> {
    let extremes: Vec<(f64, f64)> = jacobians
        .iter()
        .map(|jacobian| {
            let values = singular_values(jacobian);
            let smallest = if values.len() < jacobian.ncols() { 0.0 } else { values.last().copied().unwrap_or(0.0) };
            (smallest, values.first().copied().unwrap_or(0.0))
        })
        .collect();
    let mut ratios: Vec<f64> = extremes.iter().map(|(smallest, largest)| if *largest > 0.0 { smallest / largest } else { 0.0 }).collect();
    ratios.sort_by(f64::total_cmp);
    Some(Conditioning {
        smallest: extremes.iter().map(|e| e.0).fold(f64::INFINITY, f64::min),
        largest: extremes.iter().map(|e| e.1).fold(0.0, f64::max),
        ratio_5_percent: *ratios.get(ratios.len() / 20)?,
    })
}

/// Falling singular values; none when the decomposition does not converge.
fn singular_values(matrix: &Matrix) -> Vec<f64> {
    if matrix.nrows() == 0 || matrix.ncols() == 0 {
        return Vec::new();
    }
    matrix.singular_values().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::support;
    use super::*;

    #[test]
    fn a_linear_row_is_not_sufficiently_nonlinear() {
        let s = support(&[&[1, 1], &[1, 1]]);
        // Row 0 is (1, 2) everywhere; row 1 turns.
        let samples = [faer::mat![[1.0, 2.0], [1.0, 0.0]], faer::mat![[1.0, 2.0], [0.5, 0.5]]];
        let ranks = row_ranks(&samples, &s, 1e-9);
        assert_eq!(ranks, [RowRank { rank: 1, needed: 2 }, RowRank { rank: 2, needed: 2 }]);
    }

    #[test]
    fn conditioning_of_a_diagonal() {
        let Some(c) = conditioning(&[faer::mat![[3.0, 0.0], [0.0, 1.0]]]) else { panic!("one sample") };
        assert!((c.smallest - 1.0).abs() < 1e-12 && (c.largest - 3.0).abs() < 1e-12 && (c.ratio_5_percent - 1.0 / 3.0).abs() < 1e-12);
    }
}
