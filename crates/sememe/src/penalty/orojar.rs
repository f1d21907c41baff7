//! Orthogonal Jacobian regularisation: columns of J orthogonal to each other, by the variance of random projections.
//!
//! With v of independent ±1 entries, `Var_v ‖Jv‖² = Var_v(vᵀJᵀJv) = 2 Σ_{i≠j} (J_:iᵀ J_:j)²`.
//! The variance over `directions` draws is the unbiased one. Fourth order in J,
//! so its weight lives near 1e-6…1e-11 on images: never share a weight with another penalty.
//!
//! # Source
//! Wei et al. 2021, arXiv 2108.07668, eq. 6–8; here J v is exact instead of a forward difference.

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, PenaltyError, Point, at_least, unbiased_variance};

/// `Var_v ‖J v‖²`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Orojar {
    /// How many v are drawn; at least 2.
    pub directions: usize,
}

impl Default for Orojar {
    fn default() -> Self {
        Self { directions: 2 }
    }
}

impl Member for Orojar {
    const ABOUT: &'static str = "orthogonal Jacobian regularisation: columns orthogonal to each other";
    const SOURCE: &'static str = "Wei et al. 2021, arXiv 2108.07668, eq. 6–8";
}

impl Penalty for Orojar {
    fn needs(&self) -> Needs {
        Needs::Directions
    }

    fn check(&self, _dz: usize, _dx: usize) -> Result<(), PenaltyError> {
        at_least("orojar", "directions", self.directions, 2)
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let norms: Vec<Tensor<2>> = (0..self.directions)
            .map(|_| {
                let jv = at.project(at.rademacher());
                (jv.clone() * jv).sum_dim(1)
            })
            .collect();
        unbiased_variance(norms).mean()
    }
}
