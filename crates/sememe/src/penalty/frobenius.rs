//! The squared Frobenius norm of the Jacobian, exactly: `Σ_ij J_ij²`.
//!
//! It shrinks all entries in proportion and so gives no sparse support: offered for comparison.
//!
//! # Source
//! Rifai et al. 2011, *Contractive auto-encoders*, eq. 1 (there on the encoder).

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, Point};

/// `Σ_ij J_ij²`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Frobenius {}

impl Member for Frobenius {
    const ABOUT: &'static str = "the squared Frobenius norm of the Jacobian, from its columns";
    const SOURCE: &'static str = "Rifai et al. 2011, eq. 1";
}

impl Penalty for Frobenius {
    fn needs(&self) -> Needs {
        Needs::Columns
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let columns = at.columns();
        columns.batch_mean(columns.values.clone() * columns.values.clone())
    }
    fn elements(&self, magnitudes: Tensor<1>) -> Option<Tensor<1>> {
        Some(magnitudes.clone() * magnitudes)
    }
}
