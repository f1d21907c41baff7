//! Minimax concave penalty on the entries of the Jacobian.
//!
//! With `t = |J_ij|`: `λt − t²/2γ` while `t ≤ γλ`, and the constant `γλ²/2`
//! beyond, so that large entries are not shrunk.
//!
//! # Source
//! Zhang 2010, *Nearly unbiased variable selection under minimax concave penalty*, eq. 2.1.

use serde::{Deserialize, Serialize};

use super::element::element_wise;
use super::positive;

/// Minimax concave penalty on the Jacobian's entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mcp {
    /// λ, the slope at 0.
    pub lambda: f64,
    /// γ, above 0: the penalty is flat from γλ on.
    pub gamma: f64,
}

impl Default for Mcp {
    fn default() -> Self {
        Self { lambda: 1.0, gamma: 2.0 }
    }
}

element_wise!(
    Mcp,
    "minimax concave penalty on the Jacobian's entries",
    "Zhang 2010, eq. 2.1",
    check: |this| { positive("mcp", "lambda", this.lambda)?; positive("mcp", "gamma", this.gamma) },
    f: |this, t| {
        let (lambda, gamma) = (this.lambda, this.gamma);
        // Beyond γλ the parabola stays at its vertex γλ²/2.
        let t = t.clamp_max(gamma * lambda);
        t.clone() * lambda - t.clone() * t / (2.0 * gamma)
    }
);
