//! The Hessian penalty: the off-diagonal Hessian of every output, by the variance of random second differences.
//!
//! With v of independent ±1 entries, `Var_v(vᵀHv) = 2 Σ_{i≠j} H_ij²`, and
//! `vᵀHv ≈ [g(z+εv) − 2g(z) + g(z−εv)]/ε²`. The variance over `directions`
//! draws is the unbiased one (divided by directions − 1); the penalty is the
//! largest over the outputs, batch mean.
//!
//! # Source
//! Peebles et al. 2020, arXiv 2008.10599, eq. 4–6 (2 directions, ε = 0.1, max over outputs).

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, PenaltyError, Point, at_least, positive, unbiased_variance};

/// `max_i Var_v(vᵀ H_i v)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hessian {
    /// How many v are drawn; at least 2.
    pub directions: usize,
    /// ε, the step of the second differences.
    pub epsilon: f64,
}

impl Default for Hessian {
    fn default() -> Self {
        Self { directions: 2, epsilon: 0.1 }
    }
}

impl Member for Hessian {
    const ABOUT: &'static str = "the Hessian penalty: latents whose effects do not interact";
    const SOURCE: &'static str = "Peebles et al. 2020, arXiv 2008.10599, eq. 4–6";
}

impl Penalty for Hessian {
    fn needs(&self) -> Needs {
        Needs::Directions
    }

    fn check(&self, _dz: usize, _dx: usize) -> Result<(), PenaltyError> {
        at_least("hessian", "directions", self.directions, 2)?;
        positive("hessian", "epsilon", self.epsilon)
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let z = at.latents();
        let twice = at.output(z.clone()) * 2.0;
        let curvatures: Vec<Tensor<2>> = (0..self.directions)
            .map(|_| {
                let step = at.rademacher() * self.epsilon;
                (at.output(z.clone() + step.clone()) - twice.clone() + at.output(z.clone() - step)) / (self.epsilon * self.epsilon)
            })
            .collect();
        unbiased_variance(curvatures).max_dim(1).mean()
    }
}
