//! Latent sparsity: the L1 norm of the code, `Σ_j |z_j|` — the baseline that dependency sparsity is compared with.
//!
//! It needs no pin: it acts on the code itself.
//!
//! # Source
//! Olshausen & Field 1996; as a baseline: Zheng et al. 2026, arXiv 2604.17568, §5.

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, Point};

/// `Σ_j |z_j|`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LatentL1 {}

impl Member for LatentL1 {
    const ABOUT: &'static str = "the L1 norm of the code: latent sparsity, the usual baseline";
    const SOURCE: &'static str = "Olshausen & Field 1996; Zheng et al. 2026, §5";
}

impl Penalty for LatentL1 {
    fn needs(&self) -> Needs {
        Needs::Latents
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let samples = at.latents().dims()[0];
        at.latents().abs().sum() / samples as f64
    }
}
