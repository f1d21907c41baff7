//! Log penalty on the mean dependency: `Σ_ij ε ln(1 + E|J_ij|/ε)`.
//!
//! The structure is a property of the whole map, not of one point: an entry is
//! absent when its *mean* size is 0. The log of the mean counts entries once,
//! however their size varies over samples, where the mean of the log (`log`)
//! rewards entries that are small at some samples and large at others. With
//! `A = E|J|` the slope `1/(1 + A/ε)` is 1 at 0, as for L1, and falls off for
//! entries that are there: a truth that has more L1 than some rotation of it, as in nearly
//! dense structures, is still the minimum.
//!
//! It needs the whole batch at once, so it cannot be evaluated in chunks.
//!
//! # Source
//! Candès, Wakin & Boyd 2008, §2 (reweighted ℓ1), on the structure of Zheng et al. 2026, §2.

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, PenaltyError, Point, positive};

/// `Σ_ij ε ln(1 + E|J_ij|/ε)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogMean {
    /// ε, the size below which the penalty is nearly linear.
    pub epsilon: f64,
}

impl Default for LogMean {
    fn default() -> Self {
        Self { epsilon: 0.05 }
    }
}

impl Member for LogMean {
    const ABOUT: &'static str = "ε log(1 + E|J|/ε) on the mean dependencies: a smooth count of the structure's entries";
    const SOURCE: &'static str = "Candès, Wakin & Boyd 2008, §2, on E|J|";
}

impl Penalty for LogMean {
    fn needs(&self) -> Needs {
        Needs::MeanOverSamples
    }

    fn check(&self, _dz: usize, _dx: usize) -> Result<(), PenaltyError> {
        positive("log-mean", "epsilon", self.epsilon)
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let columns = at.columns();
        let mean = columns.values.clone().abs().mean_dim(1);
        (mean / self.epsilon).log1p().sum() * (self.epsilon * columns.scale)
    }
}
