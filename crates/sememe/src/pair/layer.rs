//! The frozen layer between two dictionaries: an MLP, gated or not, with whatever norms and residual path lie between the two hooks.
//!
//! With `x [N, d]` in the units of the first dictionary (the language model's
//! activation times `scale_in`) and y in those of the second:
//!
//! ```text
//! v = x / scale_in
//! n = norm(v)                              where a norm lies between the hooks, else v
//! p = n W_into + b_into                    [N, R·h]: R = 1, or gate and up side by side
//! c = φ(p), or φ(p_gate) ⊙ p_up            [N, h]
//! m = c W_out + b_out
//! y = scale_out · (norm′(m) or m, + v where the residual path is included)
//! ```
//!
//! Slopes of the units: `φ′(p)`; gated `φ′(p_gate) ⊙ p_up` and `φ(p_gate)`.
//!
//! # Source
//! Farnik et al. 2025, arXiv 2502.18147, §3.3; gated layers: Shazeer 2020, arXiv 2002.05202.

use burn::tensor::Tensor;
use sememe_kernels::{Activation, activate, scale_tangents};

/// A norm of rows, `γ ⊙ (v − μ)/r + β` with `r = √(mean (v − μ)² + ε)`; μ is 0 in an RMS norm.
#[derive(Clone, Debug)]
pub struct FrozenNorm {
    /// Whether the mean is taken off.
    pub is_centred: bool,
    /// γ `[d]`.
    pub factor: Tensor<1>,
    /// β `[d]`.
    pub bias: Option<Tensor<1>>,
    /// ε.
    pub epsilon: f64,
}

/// What a norm makes of rows.
pub(super) struct Normed {
    /// `(v − μ)/r`, before γ: `[N, d]`.
    pub unit: Tensor<2>,
    /// `1/r`, `[N, 1]`.
    pub inverse: Tensor<2>,
}

/// `vector` where `like` lies: with autodiff if it has that.
pub(super) fn lifted<const D: usize, const E: usize>(constant: &Tensor<D>, like: &Tensor<E>) -> Tensor<D> {
    match (like.device().is_autodiff(), constant.device().is_autodiff()) {
        (true, false) => Tensor::from_inner(constant.clone()),
        (false, true) => constant.clone().inner(),
        _ => constant.clone(),
    }
}

impl FrozenNorm {
    /// Rows over their root mean square, before γ and β.
    pub(super) fn normed(&self, v: &Tensor<2>) -> Normed {
        let centred = if self.is_centred { v.clone() - v.clone().mean_dim(1) } else { v.clone() };
        let inverse = ((centred.clone() * centred.clone()).mean_dim(1) + self.epsilon).sqrt().recip();
        Normed { unit: centred * inverse.clone(), inverse }
    }

    /// γ and β on rows that [`Self::normed`] gave.
    pub(super) fn scaled(&self, unit: Tensor<2>) -> Tensor<2> {
        let scaled = unit.clone() * lifted(&self.factor, &unit).unsqueeze_dim::<2>(0);
        match &self.bias {
            Some(bias) => scaled + lifted(bias, &unit).unsqueeze_dim::<2>(0),
            None => scaled,
        }
    }

    /// What a direction becomes under `γ ⊙ (· − mean)`: rows `[n, d]`.
    pub(super) fn directions(&self, rows: Tensor<2>) -> Tensor<2> {
        let rows = if self.is_centred { rows.clone() - rows.mean_dim(1) } else { rows };
        rows.clone() * lifted(&self.factor, &rows).unsqueeze_dim::<2>(0)
    }

    /// What a reader of the output becomes as a reader of the centred input: `e ⊙ γ`, less its mean.
    pub(super) fn readers(&self, rows: Tensor<2>) -> Tensor<2> {
        let scaled = rows.clone() * lifted(&self.factor, &rows).unsqueeze_dim::<2>(0);
        if self.is_centred { scaled.clone() - scaled.mean_dim(1) } else { scaled }
    }
}

/// A frozen layer; see the head of this file.
#[derive(Clone, Debug)]
pub struct Layer {
    /// `[d, R·h]`.
    pub into: Tensor<2>,
    /// `[R·h]`.
    pub into_bias: Option<Tensor<1>>,
    /// `[h, d_y]`.
    pub out: Tensor<2>,
    /// `[d_y]`.
    pub out_bias: Option<Tensor<1>>,
    /// φ.
    pub activation: Activation,
    /// Whether `into` holds a gate and its values.
    pub is_gated: bool,
    /// The norm between the first hook and the layer.
    pub norm_before: Option<FrozenNorm>,
    /// The norm between the layer and the second hook.
    pub norm_after: Option<FrozenNorm>,
    /// Whether the second hook has the first added to it.
    pub is_residual: bool,
    /// Factor from the language model's activation to what the first dictionary codes.
    pub scale_in: f64,
    /// The same of the second.
    pub scale_out: f64,
}

/// A token's way through the layer.
pub(super) struct Passage {
    /// v `[N, d]`.
    pub entered: Tensor<2>,
    /// The first norm, where there is one.
    pub before: Option<Normed>,
    /// p `[N, R·h]`.
    pub pre: Tensor<2>,
}

impl Layer {
    /// h.
    pub fn units(&self) -> usize {
        self.out.dims()[0]
    }

    /// The width that enters, and the width that leaves.
    pub fn widths(&self) -> (usize, usize) {
        (self.into.dims()[0], self.out.dims()[1])
    }

    pub(super) fn enter(&self, x: Tensor<2>) -> Passage {
        let entered = if self.scale_in == 1.0 { x } else { x / self.scale_in };
        let before = self.norm_before.as_ref().map(|norm| norm.normed(&entered));
        let read = match (&self.norm_before, &before) {
            (Some(norm), Some(normed)) => norm.scaled(normed.unit.clone()),
            _ => entered.clone(),
        };
        let pre = read.clone().matmul(lifted(&self.into, &read));
        let pre = match &self.into_bias {
            Some(bias) => pre + lifted(bias, &read).unsqueeze_dim::<2>(0),
            None => pre,
        };
        Passage { entered, before, pre }
    }

    /// Gate and values, or the pre-activation alone.
    fn halves(&self, pre: &Tensor<2>) -> (Tensor<2>, Option<Tensor<2>>) {
        let h = self.units();
        if self.is_gated { (pre.clone().narrow(1, 0, h), Some(pre.clone().narrow(1, h, h))) } else { (pre.clone(), None) }
    }

    /// c `[N, h]` of p.
    pub(super) fn hidden(&self, pre: &Tensor<2>) -> Tensor<2> {
        match self.halves(pre) {
            (gate, Some(values)) => activate(gate, self.activation) * values,
            (pre, None) => activate(pre, self.activation),
        }
    }

    /// The slopes of p `[N, R·h]`.
    pub(super) fn slopes(&self, pre: &Tensor<2>) -> Tensor<2> {
        match self.halves(pre) {
            (gate, Some(values)) => {
                Tensor::cat(vec![scale_tangents(values, gate.clone(), self.activation), activate(gate, self.activation)], 1)
            }
            (pre, None) => scale_tangents(pre.ones_like(), pre, self.activation),
        }
    }

    /// m `[N, d_y]` of c.
    pub(super) fn leave(&self, hidden: Tensor<2>) -> Tensor<2> {
        let output = hidden.clone().matmul(lifted(&self.out, &hidden));
        match &self.out_bias {
            Some(bias) => output + lifted(bias, &hidden).unsqueeze_dim::<2>(0),
            None => output,
        }
    }

    /// y of `x [N, d]`, both in the dictionaries' units: `[N, d_y]`.
    pub fn apply(&self, x: Tensor<2>) -> Tensor<2> {
        let Passage { entered, pre, .. } = self.enter(x);
        let output = self.leave(self.hidden(&pre));
        let output = match &self.norm_after {
            Some(norm) => norm.scaled(norm.normed(&output).unit),
            None => output,
        };
        let output = if self.is_residual { output + entered } else { output };
        if self.scale_out == 1.0 { output } else { output * self.scale_out }
    }
}
