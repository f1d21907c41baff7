//! A layer that mixes tokens by the gated delta rule instead of attention.
//!
//! `q|k|v = silu(conv(x W_qkv))` with a causal convolution a channel,
//! `β = s(x W_b)`, `g = −e^A softplus(x W_a + b)`, the rule of
//! `sememe_kernels::forward::gated_delta`, then `y = (γ ⊙ rms(o) ⊙ silu(x W_z)) W_o`.
//!
//! # Source
//! Yang, Kautz & Hatamizadeh 2024, arXiv 2412.06464; in the arrangement of Qwen3-Next and Qwen 3.5.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, activation};
use sememe_kernels::forward::{GatedDelta, gated_delta, rms_norm};
use sememe_kernels::{Activation, activate};

use super::Maker;
use crate::{DeltaSizes, Description};

/// The gated delta rule of one layer.
#[derive(Module, Debug)]
pub(crate) struct DeltaNet {
    /// `[d, 2·key_heads·dk + value_heads·dv]`.
    pub qkv: Param<Tensor<2>>,
    /// `[d, value_heads·dv]`, the output's gate.
    pub z: Param<Tensor<2>>,
    /// `[d, 2·value_heads]`, b and a side by side.
    pub ba: Param<Tensor<2>>,
    /// `[channels of qkv, taps]`.
    pub conv: Param<Tensor<2>>,
    /// `[value_heads]`.
    pub dt_bias: Param<Tensor<1>>,
    /// A, `[value_heads]`.
    pub a_log: Param<Tensor<1>>,
    /// γ, `[dv]`.
    pub gain: Param<Tensor<1>>,
    /// `[value_heads·dv, d]`.
    pub output: Param<Tensor<2>>,
    #[module(skip)]
    sizes: DeltaSizes,
    #[module(skip)]
    epsilon: f64,
}

impl DeltaNet {
    pub fn new(description: &Description, sizes: DeltaSizes, name: &str, maker: &Maker<'_>) -> Self {
        let Description { width, initial_std: std, .. } = *description;
        let values = sizes.value_heads * sizes.value_width;
        let channels = 2 * sizes.key_heads * sizes.key_width + values;
        Self {
            qkv: maker.matrix(&format!("{name}.qkv"), [width, channels], std),
            z: maker.matrix(&format!("{name}.z"), [width, values], std),
            ba: maker.matrix(&format!("{name}.ba"), [width, 2 * sizes.value_heads], std),
            conv: maker.matrix(&format!("{name}.conv"), [channels, sizes.taps], (sizes.taps as f64).powf(-0.5)),
            dt_bias: maker.vector(sizes.value_heads, 1.0),
            a_log: maker.log_uniform(&format!("{name}.a_log"), sizes.value_heads, 0.01, 16.0),
            gain: maker.vector(sizes.value_width, 1.0),
            output: maker.matrix(&format!("{name}.output"), [values, width], std / (2.0 * description.layers() as f64).sqrt()),
            sizes,
            epsilon: description.norm_epsilon,
        }
    }

    /// `x [B·T, d]`, normalised, to what is added to the residual stream.
    pub fn forward(&self, x: Tensor<2>, [batch, length]: [usize; 2]) -> Tensor<2> {
        let DeltaSizes { key_heads, value_heads, key_width, value_width, taps } = self.sizes;
        let tokens = batch * length;
        let qkv = self.convolve(x.clone().matmul(self.qkv.val()), [batch, length], taps);
        let ba = x.clone().matmul(self.ba.val());
        let beta = activation::sigmoid(ba.clone().narrow(1, 0, value_heads));
        let rate = activation::softplus(ba.narrow(1, value_heads, value_heads) + self.dt_bias.val().unsqueeze::<2>(), 1.0);
        let log_decay = rate * self.a_log.val().exp().neg().unsqueeze::<2>();
        let rule = gated_delta(qkv, log_decay, beta, GatedDelta { batch, length, key_heads, value_heads, key_width, value_width });
        let rows = rule.swap_dims(1, 2).reshape([tokens * value_heads, value_width]);
        let gate = activate(x.matmul(self.z.val()), Activation::Silu);
        let gated = rms_norm(rows, self.gain.val(), self.epsilon).reshape([tokens, value_heads * value_width]) * gate;
        gated.matmul(self.output.val())
    }

    /// Each channel with its own taps over the tokens up to this one, then silu.
    fn convolve(&self, x: Tensor<2>, [batch, length]: [usize; 2], taps: usize) -> Tensor<2> {
        let channels = x.dims()[1];
        let x = x.reshape([batch, length, channels]);
        let mut sum: Option<Tensor<3>> = None;
        for back in 0..taps.min(length) {
            let tap = self.conv.val().narrow(1, taps - 1 - back, 1).reshape([1, 1, channels]);
            let seen = x.clone().narrow(1, 0, length - back) * tap;
            let zeros = Tensor::zeros([batch, back, channels], &x.device());
            let shifted = if back == 0 { seen } else { Tensor::cat(vec![zeros, seen], 1) };
            sum = Some(match sum {
                Some(sum) => sum + shifted,
                None => shifted,
            });
        }
        activate(sum.unwrap_or(x).reshape([batch * length, channels]), Activation::Silu)
    }
}
