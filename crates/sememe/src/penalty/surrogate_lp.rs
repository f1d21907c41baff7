//! Lp quasi-norm on the entries of the Jacobian: `Σ_ij (|J_ij| + ε)^p − ε^p`.
//!
//! ε keeps the slope at 0 finite.
//!
//! # Source
//! Chartrand 2007, *Exact reconstruction of sparse signals via nonconvex minimization*, eq. 3.

use serde::{Deserialize, Serialize};

use super::element::element_wise;
use super::{PenaltyError, positive};

/// |J|^p on the Jacobian's entries, p in (0, 1].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lp {
    /// p, in (0, 1].
    pub p: f64,
    /// ε, above 0.
    pub epsilon: f64,
}

impl Default for Lp {
    fn default() -> Self {
        Self { p: 0.5, epsilon: 1e-3 }
    }
}

element_wise!(
    Lp,
    "|J|^p on the Jacobian's entries, p in (0, 1]",
    "Chartrand 2007, eq. 3",
    check: |this| { positive("lp", "epsilon", this.epsilon)?;
        if this.p > 0.0 && this.p <= 1.0 {
            Ok(())
        } else {
            Err(PenaltyError { penalty: "lp", key: "p", got: this.p.to_string(), expected: "give a number in (0, 1]".into() })
        } },
    f: |this, t| (t + this.epsilon).powf_scalar(this.p) - this.epsilon.powf(this.p)
);
