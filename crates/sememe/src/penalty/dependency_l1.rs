//! Dependency sparsity: the L1 norm of the decoder's Jacobian, `Σ_ij |J_ij|`.
//!
//! The convex surrogate of the number of dependencies `‖J‖₀`, whose minimum
//! among all generators that explain the data identifies the latents up to
//! the set-theoretic indeterminacy (and alone where the structure is diverse).
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, §3 (theorems 1–3; L0 in theory, L1 in practice).

use serde::{Deserialize, Serialize};

use super::element::element_wise;

/// `Σ_ij |J_ij|`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DependencyL1 {}

element_wise!(
    DependencyL1,
    "the L1 norm of the decoder's Jacobian: dependency sparsity",
    "Zheng et al. 2026, arXiv 2604.17568, §3",
    check: |_| Ok(()),
    f: |_, j| j
);
