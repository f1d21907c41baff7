//! Causal attention with grouped heads: one projection to queries, keys and values, the fused attention, one projection back.
//!
//! # Source
//! As in `sememe_kernels::forward::attention`; the output gate: Qiu et al. 2025, arXiv 2505.06708.

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Tensor, activation};
use sememe_kernels::forward::{self, RopeTable, attention};

use super::{Maker, Norm, affine};
use crate::{Description, MixerKind};

/// Attention of one layer.
#[derive(Module, Debug)]
pub(crate) struct Attention {
    /// `[d, (H + 2K)·dh]`.
    pub qkv: Param<Tensor<2>>,
    /// `[(H + 2K)·dh]`.
    pub qkv_bias: Option<Param<Tensor<1>>>,
    /// `[d, H·dh]`: the sigmoid of this projection multiplies the heads' outputs.
    pub gate: Option<Param<Tensor<2>>>,
    /// Of queries, a head.
    pub q_norm: Option<Norm>,
    /// Of keys, a head.
    pub k_norm: Option<Norm>,
    /// `[H·dh, d]`.
    pub output: Param<Tensor<2>>,
    /// `[d]`.
    pub output_bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    spec: forward::Attention,
}

impl Attention {
    pub fn new(description: &Description, kind: MixerKind, name: &str, maker: &Maker<'_>) -> Self {
        let Description { width, heads, kv_heads, head_width, initial_std: std, .. } = *description;
        let inner = heads * head_width;
        let all = inner + 2 * kv_heads * head_width;
        let head_norm = || description.has_qk_norm.then(|| Norm::new(description, head_width, maker));
        Self {
            qkv: maker.matrix(&format!("{name}.qkv"), [width, all], std),
            qkv_bias: description.has_qkv_bias.then(|| maker.vector(all, 0.0)),
            gate: description.has_output_gate.then(|| maker.matrix(&format!("{name}.gate"), [width, inner], std)),
            q_norm: head_norm(),
            k_norm: head_norm(),
            output: maker.matrix(&format!("{name}.output"), [inner, width], std / (2.0 * description.layers() as f64).sqrt()),
            output_bias: description.has_output_bias.then(|| maker.vector(width, 0.0)),
            spec: forward::Attention {
                batch: 0,
                length: 0,
                heads,
                kv_heads,
                head_width,
                scale: description.score_scale,
                soft_cap: description.score_cap,
                window: description.window.filter(|_| kind == MixerKind::Sliding),
                rope: None,
                norm_epsilon: description.norm_epsilon,
            },
        }
    }

    /// `x [B·T, d]`, normalised, to what is added to the residual stream.
    pub fn forward(&self, x: Tensor<2>, [batch, length]: [usize; 2], rope: Option<Arc<RopeTable>>) -> Tensor<2> {
        let gate = self.gate.as_ref().map(|gate| activation::sigmoid(x.clone().matmul(gate.val())));
        let qkv = affine(x, &self.qkv, self.qkv_bias.as_ref());
        let gains = self.q_norm.as_ref().zip(self.k_norm.as_ref()).map(|(q, k)| [q.factor(), k.factor()]);
        let heads = attention(qkv, gains, forward::Attention { batch, length, rope, ..self.spec.clone() });
        let heads = if let Some(gate) = gate { heads * gate } else { heads };
        affine(heads, &self.output, self.output_bias.as_ref())
    }
}
