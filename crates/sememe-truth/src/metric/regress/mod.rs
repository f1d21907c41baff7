//! Regressors for block R²: predict some variables from others, fitted on one part of the samples and judged on the other.

mod boosted_trees;
mod kernel_ridge;
mod linear;

pub use boosted_trees::BoostedTrees;
pub use kernel_ridge::KernelRidge;
pub use linear::Linear;

use crate::Matrix;

/// A regressor; inputs are standardised before they reach it.
pub trait Regressor: Sync {
    /// Predictions `[M, outputs]` for `test_inputs [M, inputs]` after fitting `inputs [N, inputs]` to `targets [N, outputs]`.
    fn fit_predict(&self, inputs: &Matrix, targets: &Matrix, test_inputs: &Matrix) -> Matrix;
}
