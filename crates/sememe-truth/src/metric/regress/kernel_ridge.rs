//! Kernel ridge regression with a Gaussian kernel.
//!
//! `k(x, x′) = exp(−γ ‖x − x′‖²)`, `A = (K + α I)⁻¹ Y`, prediction
//! `Σ_n k(x, x_n) A_n`. Targets are centred first and the mean added back.
//!
//! # Source
//! Saunders et al. 1998; settings as in the disentanglement literature: α = 1, γ = 1/inputs.

use faer::Side;
use faer::prelude::Solve;

use super::Regressor;
use super::linear::means;
use crate::Matrix;

/// Gaussian kernel ridge.
#[derive(Clone, Debug)]
pub struct KernelRidge {
    /// α.
    pub alpha: f64,
    /// Samples that are fitted at most (the first ones; they are in random order).
    pub most_samples: usize,
}

impl Default for KernelRidge {
    fn default() -> Self {
        Self { alpha: 1.0, most_samples: 1500 }
    }
}

fn kernel(a: &Matrix, b: &Matrix, gamma: f64) -> Matrix {
    let squares = |m: &Matrix| -> Vec<f64> { (0..m.nrows()).map(|i| (0..m.ncols()).map(|j| m[(i, j)].powi(2)).sum()).collect() };
    let (of_a, of_b) = (squares(a), squares(b));
    let dot = a * b.transpose();
    Matrix::from_fn(a.nrows(), b.nrows(), |i, j| (-gamma * (of_a[i] + of_b[j] - 2.0 * dot[(i, j)]).max(0.0)).exp())
}

impl Regressor for KernelRidge {
    fn fit_predict(&self, inputs: &Matrix, targets: &Matrix, test_inputs: &Matrix) -> Matrix {
        let n = inputs.nrows().min(self.most_samples);
        let (inputs, targets) = (inputs.subrows(0, n).to_owned(), targets.subrows(0, n).to_owned());
        let gamma = 1.0 / inputs.ncols().max(1) as f64;
        let mean = means(&targets);
        let centred = Matrix::from_fn(n, targets.ncols(), |i, j| targets[(i, j)] - mean[j]);
        let mut gram = kernel(&inputs, &inputs, gamma);
        for i in 0..n {
            gram[(i, i)] += self.alpha;
        }
        let predicted = match gram.llt(Side::Lower) {
            Ok(factor) => kernel(test_inputs, &inputs, gamma) * factor.solve(&centred),
            Err(_) => Matrix::zeros(test_inputs.nrows(), targets.ncols()),
        };
        Matrix::from_fn(predicted.nrows(), predicted.ncols(), |i, j| predicted[(i, j)] + mean[j])
    }
}
