//! The MLP of a layer in its two halves, so that its hidden layer can be read and replaced between them.
//!
//! `h = φ(x W_gate) ⊙ (x W_up)` or `h = φ(x W_up + b)`, then `y = h W_down + b`.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use sememe_kernels::{Activation, activate, forward::gated};

use super::{Maker, affine};
use crate::Description;

/// MLP of one layer.
#[derive(Module, Debug)]
pub(crate) struct Mlp {
    /// `[d, 2m]`, gate and up side by side, or `[d, m]` without a gate.
    pub up: Param<Tensor<2>>,
    /// As wide as `up`.
    pub up_bias: Option<Param<Tensor<1>>>,
    /// `[m, d]`.
    pub down: Param<Tensor<2>>,
    /// `[d]`.
    pub down_bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    pub phi: Activation,
    #[module(skip)]
    pub is_gated: bool,
}

impl Mlp {
    pub fn new(description: &Description, name: &str, maker: &Maker<'_>) -> Self {
        let Description { width, mlp_width, is_gated, initial_std: std, .. } = *description;
        let up = if is_gated { 2 * mlp_width } else { mlp_width };
        Self {
            up: maker.matrix(&format!("{name}.up"), [width, up], std),
            up_bias: description.has_mlp_bias.then(|| maker.vector(up, 0.0)),
            down: maker.matrix(&format!("{name}.down"), [mlp_width, width], std / (2.0 * description.layers() as f64).sqrt()),
            down_bias: description.has_mlp_bias.then(|| maker.vector(width, 0.0)),
            phi: description.activation,
            is_gated,
        }
    }

    /// `x [N, d]` to the hidden layer `[N, m]`.
    pub fn hidden(&self, x: Tensor<2>) -> Tensor<2> {
        let pre = affine(x, &self.up, self.up_bias.as_ref());
        if self.is_gated { gated(pre, self.phi) } else { activate(pre, self.phi) }
    }

    /// The hidden layer to the output `[N, d]`.
    pub fn output(&self, hidden: Tensor<2>) -> Tensor<2> {
        affine(hidden, &self.down, self.down_bias.as_ref())
    }
}
