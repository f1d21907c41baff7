//! Log penalty on the entries of the Jacobian: `Σ_ij ln(1 + |J_ij|/ε)`.
//!
//! Its slope `1/(ε + |J|)` falls off with size: the reweighted-L1 penalty.
//!
//! # Source
//! Candès, Wakin & Boyd 2008, *Enhancing sparsity by reweighted ℓ1 minimization*, §2.

use serde::{Deserialize, Serialize};

use super::element::element_wise;
use super::positive;

/// Log(1 + |J|/ε) on the Jacobian's entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// ε, the size below which the penalty is nearly linear.
    pub epsilon: f64,
}

impl Default for Log {
    fn default() -> Self {
        Self { epsilon: 0.1 }
    }
}

element_wise!(
    Log,
    "log(1 + |J|/ε) on the Jacobian's entries",
    "Candès, Wakin & Boyd 2008, §2",
    check: |this| { positive("log", "epsilon", this.epsilon) },
    f: |this, t| (t / this.epsilon).log1p()
);
