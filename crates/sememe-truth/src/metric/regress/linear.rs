//! Ridge regression: says how much of a relation is linear.
//!
//! `W = (XᵀX + α I)⁻¹ Xᵀ (Y − ȳ)`, prediction `x W + ȳ`; X is standardised.
//!
//! # Source
//! Hoerl & Kennard 1970.

use faer::Side;
use faer::prelude::Solve;

use super::Regressor;
use crate::Matrix;

/// Ridge regression with a small α.
#[derive(Clone, Debug)]
pub struct Linear {
    /// α.
    pub ridge: f64,
}

impl Default for Linear {
    fn default() -> Self {
        Self { ridge: 1e-6 }
    }
}

/// Column means.
pub(super) fn means(y: &Matrix) -> Vec<f64> {
    (0..y.ncols()).map(|j| y.col(j).iter().sum::<f64>() / y.nrows().max(1) as f64).collect()
}

impl Regressor for Linear {
    fn fit_predict(&self, inputs: &Matrix, targets: &Matrix, test_inputs: &Matrix) -> Matrix {
        let mean = means(targets);
        let centred = Matrix::from_fn(targets.nrows(), targets.ncols(), |i, j| targets[(i, j)] - mean[j]);
        let mut gram = inputs.transpose() * inputs;
        for j in 0..gram.ncols() {
            gram[(j, j)] += self.ridge;
        }
        let predicted = match gram.llt(Side::Lower) {
            Ok(factor) => test_inputs * factor.solve(inputs.transpose() * centred),
            // Not positive definite even with the ridge: predict the mean.
            Err(_) => Matrix::zeros(test_inputs.nrows(), targets.ncols()),
        };
        Matrix::from_fn(predicted.nrows(), predicted.ncols(), |i, j| predicted[(i, j)] + mean[j])
    }
}
