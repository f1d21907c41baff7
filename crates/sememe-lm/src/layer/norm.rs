//! The norm of the residual stream that a description asks for.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use sememe_kernels::forward::{layer_norm, rms_norm};

use super::Maker;
use crate::{Description, NormKind};

/// RMS or layer norm of rows.
#[derive(Module, Debug)]
pub(crate) struct Norm {
    /// γ as the checkpoint stores it, `[width]`.
    pub gain: Param<Tensor<1>>,
    /// β, `[width]`.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    pub kind: NormKind,
    #[module(skip)]
    pub epsilon: f64,
}

impl Norm {
    pub fn new(description: &Description, width: usize, maker: &Maker<'_>) -> Self {
        let kind = description.norm;
        let start = if kind == NormKind::RmsFromOne { 0.0 } else { 1.0 };
        let bias = (kind == NormKind::Layer).then(|| maker.vector(width, 0.0));
        Self { gain: maker.vector(width, start), bias, kind, epsilon: description.norm_epsilon }
    }

    /// The factor on normalised rows.
    pub fn factor(&self) -> Tensor<1> {
        if self.kind == NormKind::RmsFromOne { self.gain.val() + 1.0 } else { self.gain.val() }
    }

    /// Rows `[N, width]`, normalised.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        match &self.bias {
            Some(bias) => layer_norm(x, self.gain.val(), bias.val(), self.epsilon),
            None => rms_norm(x, self.factor(), self.epsilon),
        }
    }
}
