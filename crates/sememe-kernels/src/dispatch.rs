//! Routing of the fused operations to the CPU device, and their hand-written backward passes.
//!
//! [`KernelOps`] lists the operations; `impl … for Flex` calls the loops of
//! the sibling modules on raw slices; `impl … for Autodiff` registers the
//! backward passes. Nothing outside this crate names it.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_flex::{Flex, FlexTensor};

use crate::{Activation, tangents};

/// The fused operations, on tensors of any rank (they are element-wise in the flattened view).
#[backend_extension(Flex, Autodiff)]
pub trait KernelOps: Backend {
    /// `φ(u)`.
    fn activate(pre: FloatTensor<Self>, phi: Activation) -> FloatTensor<Self>;
    /// `ḡ ⊙ φ′(u)`: `tangents` holds k blocks of the shape of `pre`, one after another.
    fn scale_tangents(tangents: FloatTensor<Self>, pre: FloatTensor<Self>, phi: Activation) -> FloatTensor<Self>;
    /// `Σ_k ḡ_k ⊙ u̇_k ⊙ φ″(u)`: the gradient of [`KernelOps::scale_tangents`] in `pre`.
    fn scale_tangents_backward(
        tangents: FloatTensor<Self>,
        pre: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        phi: Activation,
    ) -> FloatTensor<Self>;
}

/// Whether the fused path exists for the device on which `tensor` lies.
pub(crate) fn is_fused<const D: usize>(tensor: &Tensor<D>) -> bool {
    use burn::backend::DispatchDevice;
    let device = tensor.device().inner();
    matches!(device.as_dispatch(), DispatchDevice::Flex(_)) && tensor.dtype() == burn::tensor::DType::F32
}

/// A view of the tensor whose storage is exactly its elements, in order.
pub(crate) fn dense(tensor: FlexTensor) -> FlexTensor {
    let whole =
        tensor.is_contiguous() && tensor.layout().start_offset() == 0 && tensor.storage::<f32>().len() == tensor.layout().num_elements();
    if whole { tensor } else { FlexTensor::from_data(tensor.to_contiguous().into_data()) }
}

/// The elements of a tensor that [`dense`] gave.
pub(crate) fn values_of(tensor: &FlexTensor) -> &[f32] {
    tensor.storage()
}

fn like(values: Vec<f32>, model: &FlexTensor) -> FlexTensor {
    FlexTensor::from_data(burn::tensor::TensorData::new(values, model.layout().shape().clone()))
}

impl KernelOps for Flex {
    fn activate(pre: FlexTensor, phi: Activation) -> FlexTensor {
        let pre = dense(pre);
        like(tangents::value(pre.storage(), phi), &pre)
    }

    fn scale_tangents(tangents: FlexTensor, pre: FlexTensor, phi: Activation) -> FlexTensor {
        let (tangents, pre) = (dense(tangents), dense(pre));
        like(tangents::scale(tangents.storage(), pre.storage(), phi), &tangents)
    }

    fn scale_tangents_backward(tangents: FlexTensor, pre: FlexTensor, grad: FlexTensor, phi: Activation) -> FlexTensor {
        let (tangents, pre, grad) = (dense(tangents), dense(pre), dense(grad));
        like(tangents::scale_backward(tangents.storage(), pre.storage(), grad.storage(), phi), &pre)
    }
}

#[derive(Debug)]
struct ActivateBackward;

impl<B: KernelOps> Backward<B, 1> for ActivateBackward {
    type State = (FloatTensor<B>, Activation);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (pre, phi) = ops.state;
        if let [Some(parent)] = ops.parents {
            grads.register::<B>(parent.id, B::scale_tangents(grad, pre, phi));
        }
    }
}

#[derive(Debug)]
struct ScaleTangentsBackward;

impl<B: KernelOps> Backward<B, 2> for ScaleTangentsBackward {
    type State = (FloatTensor<B>, FloatTensor<B>, Activation);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (tangents, pre, phi) = ops.state;
        let [for_tangents, for_pre] = ops.parents;
        if let (Some(parent), false) = (for_pre, phi.is_piecewise_linear()) {
            let flow = B::scale_tangents_backward(tangents, pre.clone(), grad.clone(), phi);
            grads.register::<B>(parent.id, flow);
        }
        if let Some(parent) = for_tangents {
            grads.register::<B>(parent.id, B::scale_tangents(grad, pre, phi));
        }
    }
}

impl<B: KernelOps, C: CheckpointStrategy> KernelOps for Autodiff<B, C> {
    fn activate(pre: FloatTensor<Self>, phi: Activation) -> FloatTensor<Self> {
        match ActivateBackward.prepare::<C>([pre.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let output = B::activate(pre.primitive().clone(), phi);
                prep.finish((pre.into_primitive(), phi), output)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::activate(pre.into_primitive(), phi)),
        }
    }

    fn scale_tangents(tangents: FloatTensor<Self>, pre: FloatTensor<Self>, phi: Activation) -> FloatTensor<Self> {
        match ScaleTangentsBackward.prepare::<C>([tangents.node(), pre.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let output = B::scale_tangents(tangents.primitive().clone(), pre.primitive().clone(), phi);
                prep.finish((tangents.into_primitive(), pre.into_primitive(), phi), output)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::scale_tangents(tangents.into_primitive(), pre.into_primitive(), phi)),
        }
    }

    /// Reached only from a backward pass, which runs on the inner backend.
    fn scale_tangents_backward(
        tangents: FloatTensor<Self>,
        pre: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        phi: Activation,
    ) -> FloatTensor<Self> {
        untracked::<B, C>(B::scale_tangents_backward(tangents.into_primitive(), pre.into_primitive(), grad.into_primitive(), phi))
    }
}

/// Wraps a value of the inner backend that takes no part in differentiation.
pub(crate) fn untracked<B: Backend, C: CheckpointStrategy>(inner: FloatTensor<B>) -> FloatTensor<Autodiff<B, C>> {
    <Autodiff<B, C> as burn::backend::AutodiffBackend>::from_inner(inner)
}
