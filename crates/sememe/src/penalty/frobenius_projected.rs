//! The squared Frobenius norm of the Jacobian by random projection: `E ‖J v‖² = Σ_ij J_ij²`.
//!
//! v has independent ±1 entries (Rademacher), so `E vvᵀ = I`; the mean over
//! `directions` draws is unbiased, at the cost of one tangent a draw.
//!
//! # Source
//! Hutchinson 1990; for Jacobians: Hoffman et al. 2019, arXiv 1908.02729, eq. 7.

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, PenaltyError, Point};

/// `mean_v ‖J v‖²` over random v.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FrobeniusProjected {
    /// How many v are drawn for each sample.
    pub directions: usize,
}

impl Default for FrobeniusProjected {
    fn default() -> Self {
        Self { directions: 1 }
    }
}

impl Member for FrobeniusProjected {
    const ABOUT: &'static str = "the squared Frobenius norm of the Jacobian, by random projection";
    const SOURCE: &'static str = "Hutchinson 1990; Hoffman et al. 2019, arXiv 1908.02729, eq. 7";
}

impl Penalty for FrobeniusProjected {
    fn needs(&self) -> Needs {
        Needs::Directions
    }

    fn check(&self, _dz: usize, _dx: usize) -> Result<(), PenaltyError> {
        super::at_least("frobenius-projected", "directions", self.directions, 1)
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let samples = at.latents().dims()[0];
        let squares = (0..self.directions).map(|_| {
            let jv = at.project(at.rademacher());
            (jv.clone() * jv).sum()
        });
        let total = squares.reduce(|a, b| a + b);
        total.unwrap_or_else(|| at.latents().sum() * 0.0) / (self.directions * samples) as f64
    }
}
