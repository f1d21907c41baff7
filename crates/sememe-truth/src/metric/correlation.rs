//! Correlation matrices between the columns of two sample matrices, Pearson's and Spearman's.
//!
//! `r_jl = Σ_n (x_nj − x̄_j)(y_nl − ȳ_l) / √(Σ(x−x̄)² Σ(y−ȳ)²)`: numerator and
//! denominator are sums over the same samples, so |r| cannot exceed 1 (it is
//! clamped against rounding). A constant column has correlation 0 with all. Spearman's is
//! Pearson's of the ranks, ties sharing their mean rank.

use serde::{Deserialize, Serialize};

use crate::Matrix;

/// Which correlation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Correlation {
    /// Linear.
    #[default]
    Pearson,
    /// Monotone.
    Spearman,
}

impl Correlation {
    /// The numbers whose Pearson correlation it is: the samples themselves, or their ranks.
    pub(super) fn prepared(self, x: &Matrix) -> Matrix {
        match self {
            Self::Pearson => x.to_owned(),
            Self::Spearman => ranks(x),
        }
    }

    /// `[columns of x, columns of y]`; x and y have one row a sample.
    pub fn between(self, x: &Matrix, y: &Matrix) -> Matrix {
        pearson(&self.prepared(x), &self.prepared(y))
    }
}

/// Columns centred and scaled to norm 1; a constant column becomes 0.
pub(super) fn unit_columns(x: &Matrix) -> Matrix {
    let mut unit = x.to_owned();
    let n = x.nrows();
    for j in 0..x.ncols() {
        let mean = x.col(j).iter().sum::<f64>() / n as f64;
        let largest = x.col(j).iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        let norm = x.col(j).iter().map(|v| (v - mean).powi(2)).sum::<f64>().sqrt();
        // Rounding leaves a constant column with a norm of about 1e-16 of its size.
        let scale = if norm > 1e-12 * largest * (n as f64).sqrt() { 1.0 / norm } else { 0.0 };
        for i in 0..n {
            unit[(i, j)] = (unit[(i, j)] - mean) * scale;
        }
    }
    unit
}

/// Pearson's r of paired numbers; 0 if either is constant.
pub(super) fn pearson_of(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let n = pairs.clone().count().max(1) as f64;
    let (sum_x, sum_y) = pairs.clone().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    let (mean_x, mean_y) = (sum_x / n, sum_y / n);
    let (xy, xx, yy) = pairs.fold((0.0, 0.0, 0.0), |(xy, xx, yy), (x, y)| {
        let (x, y) = (x - mean_x, y - mean_y);
        (xy + x * y, xx + x * x, yy + y * y)
    });
    if xx > 0.0 && yy > 0.0 { (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0) } else { 0.0 }
}

fn pearson(x: &Matrix, y: &Matrix) -> Matrix {
    let product = unit_columns(x).transpose() * unit_columns(y);
    Matrix::from_fn(product.nrows(), product.ncols(), |i, j| product[(i, j)].clamp(-1.0, 1.0))
}

fn ranks(x: &Matrix) -> Matrix {
    let mut ranks = Matrix::zeros(x.nrows(), x.ncols());
    for j in 0..x.ncols() {
        let mut order: Vec<usize> = (0..x.nrows()).collect();
        order.sort_by(|&a, &b| x[(a, j)].total_cmp(&x[(b, j)]));
        let mut start = 0;
        while start < order.len() {
            let ties = order[start..].iter().take_while(|&&i| x[(i, j)] == x[(order[start], j)]).count();
            let mean = start as f64 + (ties - 1) as f64 / 2.0;
            for &i in &order[start..start + ties] {
                ranks[(i, j)] = mean;
            }
            start += ties;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand_with_ties_and_a_constant() {
        let x = faer::mat![[1.0, 7.0], [2.0, 7.0], [3.0, 7.0], [4.0, 7.0]];
        let y = faer::mat![[1.0], [4.0], [9.0], [9.0]];
        let p = Correlation::Pearson.between(&x, &y);
        // cov = 14.5 about the means 2.5 and 5.75; Σx² = 5, Σy² = 46.75.
        assert!((p[(0, 0)] - 14.5 / (5.0_f64 * 46.75).sqrt()).abs() < 1e-12);
        assert_eq!(p[(1, 0)], 0.0);
        // Ranks of y: 0, 1, 2.5, 2.5 about 1.5: Σxy = 4.5, Σy² = 4.5.
        let s = Correlation::Spearman.between(&x, &y);
        assert!((s[(0, 0)] - 4.5 / (5.0_f64 * 4.5).sqrt()).abs() < 1e-12);
    }
}
