//! Dependency L1 by forward differences, as in the JL1-VAE: `Σ_ij |(g_i(z + ε e_j) − g_i(z))/ε|`, codes detached.
//!
//! One more evaluation of the generator a latent, biased by O(ε) and noisy in
//! single precision; here as the baseline for speed and accuracy of the exact form.
//!
//! # Source
//! Rhodes & Lee 2021, *Local Disentanglement in Variational Auto-Encoders Using Jacobian L1 Regularization*, eq. 6 (ε = 1e-3).

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, PenaltyError, Point, positive};

/// `Σ_ij |(g_i(z + ε e_j) − g_i(z))/ε|`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DependencyL1Difference {
    /// ε, the step.
    pub epsilon: f64,
}

impl Default for DependencyL1Difference {
    fn default() -> Self {
        Self { epsilon: 1e-3 }
    }
}

impl Member for DependencyL1Difference {
    const ABOUT: &'static str = "dependency L1 by forward differences, codes detached (JL1-VAE)";
    const SOURCE: &'static str = "Rhodes & Lee 2021, eq. 6";
}

impl Penalty for DependencyL1Difference {
    fn needs(&self) -> Needs {
        Needs::Directions
    }

    fn check(&self, _dz: usize, _dx: usize) -> Result<(), PenaltyError> {
        positive("dependency-l1-difference", "epsilon", self.epsilon)
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let z = at.latents().detach();
        let [samples, dz] = z.dims();
        let base = at.output(z.clone());
        let sums = (0..dz).map(|j| ((at.output(z.clone() + at.unit(j) * self.epsilon) - base.clone()) / self.epsilon).abs().sum());
        sums.reduce(|a, b| a + b).unwrap_or_else(|| base.clone().sum() * 0.0) / samples as f64
    }
}
