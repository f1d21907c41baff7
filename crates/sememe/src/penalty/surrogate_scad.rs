//! Smoothly clipped absolute deviation on the entries of the Jacobian.
//!
//! With `t = |J_ij|`: `λt` while `t ≤ λ`; `(2aλt − t² − λ²)/(2(a−1))` while
//! `t ≤ aλ`; the constant `λ²(a+1)/2` beyond.
//!
//! # Source
//! Fan & Li 2001, *Variable selection via nonconcave penalized likelihood*, eq. 2.6 (a = 3.7).

use serde::{Deserialize, Serialize};

use super::element::element_wise;
use super::positive;

/// Smoothly clipped absolute deviation on the Jacobian's entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scad {
    /// λ, where the slope begins to fall.
    pub lambda: f64,
    /// a, above 1: the penalty is flat from aλ on.
    pub a: f64,
}

impl Default for Scad {
    fn default() -> Self {
        Self { lambda: 1.0, a: 3.7 }
    }
}

element_wise!(
    Scad,
    "smoothly clipped absolute deviation on the Jacobian's entries",
    "Fan & Li 2001, eq. 2.6",
    check: |this| { positive("scad", "lambda", this.lambda)?; positive("scad", "a", this.a - 1.0) },
    f: |this, t| {
        let (lambda, a) = (this.lambda, this.a);
        // λ·min(t, λ) is the linear part; the middle piece minus its value at λ is the quadratic part.
        let linear = t.clone().clamp_max(lambda) * lambda;
        let middle = t.clamp(lambda, a * lambda);
        let quadratic = (middle.clone() * (2.0 * a * lambda) - middle.clone() * middle - lambda * lambda) / (2.0 * (a - 1.0)) - lambda * lambda;
        linear + quadratic
    }
);
