//! The MLP of a layer as plain matrices, with the norms around it: what a Jacobian through it is made of.

use burn::tensor::Tensor;
use sememe_kernels::Activation;

use crate::hook::{Hook, Place};
use crate::layer::Norm;
use crate::{LmError, MixerKind, NormKind, Transformer};

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

/// An attention layer as numbers; see [`Transformer::attention_parts`].
#[derive(Clone, Debug)]
pub struct AttentionParts {
    /// The norm before it.
    pub norm: NormParts,
    /// `[d, (H + 2G)·e]`: queries, keys and values of all heads side by side.
    pub qkv: Tensor<2>,
    /// As wide as `qkv`.
    pub qkv_bias: Option<Tensor<1>>,
    /// `[H·e, d]`.
    pub output: Tensor<2>,
    /// `[d]`.
    pub output_bias: Option<Tensor<1>>,
    /// H.
    pub heads: usize,
    /// G.
    pub kv_heads: usize,
    /// Factor on the scores.
    pub score_scale: f64,
    /// Tokens back that are seen, where not all are.
    pub window: Option<usize>,
    /// Angle a position of each pair of components that is turned.
    pub frequencies: Vec<f64>,
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

    /// The attention of layer `layer`, and the norm before it.
    ///
    /// # Errors
    /// A layer that the model does not have, or whose attention is more than these numbers: a gated delta net, norms of queries
    /// and keys, soft-capped scores, a gated or normalised output.
    pub fn attention_parts(&self, layer: usize) -> Result<AttentionParts, LmError> {
        let description = self.description();
        let hook = Hook::new(layer, Place::AttnOut);
        let Some(of_layer) = self.layers().get(layer) else {
            return Err(LmError::NoLayer { hook, last: description.layers() - 1 });
        };
        let refuse = |found: &'static str| Err(LmError::Attention { hook, found });
        let Some(attention) = &of_layer.attention else { return refuse("a gated delta net") };
        match () {
            () if description.has_qk_norm => return refuse("norms of queries and keys"),
            () if description.score_cap.is_some() => return refuse("soft-capped scores"),
            () if description.has_output_gate => return refuse("a gated output"),
            () if description.has_post_norms => return refuse("a norm after it"),
            () => {}
        }
        let is_sliding = description.mixers[layer] == MixerKind::Sliding;
        let rope = if is_sliding { description.sliding_rope.as_ref().or(description.rope.as_ref()) } else { description.rope.as_ref() };
        Ok(AttentionParts {
            norm: of_layer.attention_norm.parts(),
            qkv: attention.qkv.val(),
            qkv_bias: attention.qkv_bias.as_ref().map(|bias| bias.val()),
            output: attention.output.val(),
            output_bias: attention.output_bias.as_ref().map(|bias| bias.val()),
            heads: description.heads,
            kv_heads: description.kv_heads,
            score_scale: description.score_scale,
            window: description.window.filter(|_| is_sliding),
            frequencies: rope.map(|rope| rope.frequencies()).unwrap_or_default(),
        })
    }
}
