//! Fused forward passes of a transformer's parts, for the CPU device without autodiff.
//!
//! Each public function takes the fused path when its tensor lies on the CPU
//! and records no gradients, and otherwise runs ordinary tensor operations,
//! which are differentiable and serve every device. Both give the same values
//! (see the tests of each file).

mod attention;
mod cross_entropy;
mod delta;
mod gated;
mod norm;

use burn::backend::{Backend, DispatchDevice, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor, TensorData};
use burn_flex::{Flex, FlexTensor};

pub use attention::{Attention, RopeTable, attention};
pub use cross_entropy::cross_entropy;
pub use delta::{GatedDelta, gated_delta};
pub use gated::gated;
pub use norm::{layer_norm, rms_norm};

use crate::Activation;

/// The fused forward passes.
#[backend_extension(Flex)]
pub trait ForwardOps: Backend {
    /// See [`rms_norm`].
    fn fused_rms_norm(x: FloatTensor<Self>, gain: FloatTensor<Self>, epsilon: f64) -> FloatTensor<Self>;
    /// See [`layer_norm`].
    fn fused_layer_norm(x: FloatTensor<Self>, gain: FloatTensor<Self>, bias: FloatTensor<Self>, epsilon: f64) -> FloatTensor<Self>;
    /// See [`gated`].
    fn fused_gated(pre: FloatTensor<Self>, phi: Activation) -> FloatTensor<Self>;
    /// See [`attention`].
    fn fused_attention(qkv: FloatTensor<Self>, gains: Option<[Vec<f32>; 2]>, spec: Attention) -> FloatTensor<Self>;
    /// See [`gated_delta`].
    fn fused_gated_delta(
        qkv: FloatTensor<Self>,
        log_decay: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        spec: GatedDelta,
    ) -> FloatTensor<Self>;
    /// See [`cross_entropy`].
    fn fused_cross_entropy(logits: FloatTensor<Self>, targets: Vec<u32>) -> FloatTensor<Self>;
}

/// Whether the fused path may be taken: single precision on the CPU, no gradients.
fn is_plain_cpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    matches!(tensor.device().as_dispatch(), DispatchDevice::Flex(_)) && tensor.dtype() == DType::F32
}

/// The tensor with its elements in order and nothing else in its storage.
fn dense(tensor: FlexTensor) -> FlexTensor {
    let elements = tensor.layout().num_elements();
    let whole = tensor.is_contiguous() && tensor.layout().start_offset() == 0 && tensor.storage::<f32>().len() == elements;
    if whole { tensor } else { FlexTensor::from_data(tensor.to_contiguous().into_data()) }
}

fn tensor(values: Vec<f32>, dims: &[usize]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, dims.to_vec()))
}

fn last_dim(tensor: &FlexTensor) -> usize {
    tensor.layout().shape().iter().last().copied().unwrap_or(1)
}

fn dims(tensor: &FlexTensor) -> Vec<usize> {
    tensor.layout().shape().to_vec()
}

impl ForwardOps for Flex {
    fn fused_rms_norm(x: FlexTensor, gain: FlexTensor, epsilon: f64) -> FlexTensor {
        let (x, gain) = (dense(x), dense(gain));
        tensor(norm::rms(x.storage(), gain.storage(), epsilon as f32), &dims(&x))
    }

    fn fused_layer_norm(x: FlexTensor, gain: FlexTensor, bias: FlexTensor, epsilon: f64) -> FlexTensor {
        let (x, gain, bias) = (dense(x), dense(gain), dense(bias));
        tensor(norm::layer(x.storage(), gain.storage(), bias.storage(), epsilon as f32), &dims(&x))
    }

    fn fused_gated(pre: FlexTensor, phi: Activation) -> FlexTensor {
        let pre = dense(pre);
        let width = last_dim(&pre) / 2;
        let mut shape = dims(&pre);
        if let Some(last) = shape.last_mut() {
            *last = width;
        }
        tensor(gated::fused(pre.storage(), width, phi), &shape)
    }

    fn fused_attention(qkv: FlexTensor, gains: Option<[Vec<f32>; 2]>, spec: Attention) -> FlexTensor {
        let mut qkv = dense(qkv);
        let tokens = spec.batch * spec.length;
        // In place when the projection has no other owner, which is so unless someone kept it.
        let output = attention::fused(qkv.storage_mut(), gains.as_ref(), &spec);
        tensor(output, &[tokens, spec.heads * spec.head_width])
    }

    fn fused_gated_delta(qkv: FlexTensor, log_decay: FlexTensor, beta: FlexTensor, spec: GatedDelta) -> FlexTensor {
        let (qkv, log_decay, beta) = (dense(qkv), dense(log_decay), dense(beta));
        let output = delta::fused(qkv.storage(), log_decay.storage(), beta.storage(), &spec);
        tensor(output, &[spec.batch, spec.value_heads, spec.length, spec.value_width])
    }

    fn fused_cross_entropy(logits: FlexTensor, targets: Vec<u32>) -> FlexTensor {
        let logits = dense(logits);
        let width = last_dim(&logits);
        tensor(cross_entropy::fused(logits.storage(), &targets, width), &[targets.len()])
    }
}
