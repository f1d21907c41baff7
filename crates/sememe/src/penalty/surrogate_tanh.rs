//! Saturating penalty on the entries of the Jacobian: `Σ_ij tanh(|J_ij|/s)`, a smooth count of the entries above s.
//!
//! # Source
//! Mohimani et al. 2009, *Smoothed ℓ0*, with tanh as the smooth count (eq. 3 has a Gaussian).

use serde::{Deserialize, Serialize};

use super::element::element_wise;
use super::positive;

/// Tanh(|J|/s) on the Jacobian's entries: a smooth count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tanh {
    /// s, the size at which an entry counts as present.
    pub scale: f64,
}

impl Default for Tanh {
    fn default() -> Self {
        Self { scale: 0.1 }
    }
}

element_wise!(
    Tanh,
    "tanh(|J|/s) on the Jacobian's entries: a smooth count",
    "Mohimani et al. 2009, eq. 3, with tanh",
    check: |this| { positive("tanh", "scale", this.scale) },
    f: |this, t| (t / this.scale).tanh()
);
