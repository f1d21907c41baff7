//! The MLP of a layer as plain matrices, with the norms around it: what a Jacobian through it is made of.

use burn::tensor::Tensor;
use sememe_kernels::Activation;

use crate::hook::{Hook, Place};
use crate::layer::Norm;
use crate::{LmError, NormKind, Transformer};

/// A norm as numbers.
#[derive(Clone, Debug)]
pub struct NormParts {
    /// Whether the mean is taken off before (layer norm).
    pub is_centred: bool,
    /// The factor on normalised rows, `[d]`.
    pub factor: Tensor<1>,
    /// β `[d]`.
    pub bias: Option<Tensor<1>>,
    /// Under the root.
    pub epsilon: f64,
}

/// An MLP as numbers; see [`Transformer::mlp_parts`].
#[derive(Clone, Debug)]
pub struct MlpParts {
    /// The norm before it.
    pub norm: NormParts,
    /// `[d, m]`, or gate and up side by side `[d, 2m]`.
    pub up: Tensor<2>,
    /// As wide as `up`.
    pub up_bias: Option<Tensor<1>>,
    /// `[m, d]`.
    pub down: Tensor<2>,
    /// `[d]`.
    pub down_bias: Option<Tensor<1>>,
    /// φ.
    pub activation: Activation,
    /// Whether it is `φ(gate) ⊙ up`.
    pub is_gated: bool,
    /// The norm of its output (Gemma).
    pub post_norm: Option<NormParts>,
    /// Whether it reads the residual stream before attention (NeoX).
    pub is_parallel: bool,
}

impl Norm {
    fn parts(&self) -> NormParts {
        NormParts {
            is_centred: self.kind == NormKind::Layer,
            factor: self.factor(),
            bias: self.bias.as_ref().map(|bias| bias.val()),
            epsilon: self.epsilon,
        }
    }
}

impl Transformer {
    /// The MLP of layer `layer`, and the norms around it.
    ///
    /// # Errors
    /// A layer that the model does not have.
    pub fn mlp_parts(&self, layer: usize) -> Result<MlpParts, LmError> {
        let last = self.description().layers() - 1;
        let Some(of_layer) = self.layers().get(layer) else {
            return Err(LmError::NoLayer { hook: Hook::new(layer, Place::MlpIn), last });
        };
        let mlp = &of_layer.mlp;
        Ok(MlpParts {
            norm: of_layer.mlp_norm.parts(),
            up: mlp.up.val(),
            up_bias: mlp.up_bias.as_ref().map(|bias| bias.val()),
            down: mlp.down.val(),
            down_bias: mlp.down_bias.as_ref().map(|bias| bias.val()),
            activation: mlp.phi,
            is_gated: mlp.is_gated,
            post_norm: of_layer.mlp_post_norm.as_ref().map(Norm::parts),
            is_parallel: self.description().is_parallel,
        })
    }
}
