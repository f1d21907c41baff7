//! Capped L1 on the entries of the Jacobian: `Σ_ij min(|J_ij|, cap)`.
//!
//! # Source
//! Zhang 2010, *Analysis of multi-stage convex relaxation for sparse regularization*, §2.

use serde::{Deserialize, Serialize};

use super::element::element_wise;
use super::positive;

/// Min(|J|, cap) on the Jacobian's entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CappedL1 {
    /// Entries above it are not penalised further.
    pub cap: f64,
}

impl Default for CappedL1 {
    fn default() -> Self {
        Self { cap: 0.5 }
    }
}

element_wise!(
    CappedL1,
    "min(|J|, cap) on the Jacobian's entries",
    "Zhang 2010 (multi-stage convex relaxation), §2",
    check: |this| { positive("capped-l1", "cap", this.cap) },
    f: |this, t| t.clamp_max(this.cap)
);
