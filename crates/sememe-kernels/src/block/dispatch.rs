//! Routing of the Jacobian's blocks to the CPU device, and their hand-written backward pass.

use std::sync::Arc;

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};
use burn::tensor::TensorData;
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_flex::{Flex, FlexTensor};

use super::loops::{self, Operands};
use crate::Pattern;
use crate::dispatch::{dense, untracked, values_of};

/// The blocks and their gradients.
#[backend_extension(Flex, Autodiff)]
pub trait BlockOps: Backend {
    /// `J[t, b, a]`, token after token.
    fn block_forward(
        into: FloatTensor<Self>,
        out: FloatTensor<Self>,
        slopes: FloatTensor<Self>,
        x: Arc<Pattern>,
        y: Arc<Pattern>,
    ) -> FloatTensor<Self>;
    /// Gradients in `into`, `out` and `slopes`.
    fn block_backward(
        into: FloatTensor<Self>,
        out: FloatTensor<Self>,
        slopes: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        x: Arc<Pattern>,
        y: Arc<Pattern>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

fn from_values(values: Vec<f32>, shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.to_vec()))
}

fn shape(tensor: &FlexTensor) -> [usize; 2] {
    let shape = tensor.layout().shape();
    [shape[0], shape[1]]
}

impl BlockOps for Flex {
    fn block_forward(into: FlexTensor, out: FlexTensor, slopes: FlexTensor, x: Arc<Pattern>, y: Arc<Pattern>) -> FlexTensor {
        let (into, out, slopes) = (dense(into), dense(out), dense(slopes));
        let [_, units] = shape(&out);
        let operands = Operands { into: values_of(&into), out: values_of(&out), slopes: values_of(&slopes), units, x: &x, y: &y };
        let blocks = loops::forward(&operands);
        let count = blocks.len();
        from_values(blocks, &[count])
    }

    fn block_backward(
        into: FlexTensor,
        out: FlexTensor,
        slopes: FlexTensor,
        grad: FlexTensor,
        x: Arc<Pattern>,
        y: Arc<Pattern>,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let (into, out, slopes, grad) = (dense(into), dense(out), dense(slopes), dense(grad));
        let [_, units] = shape(&out);
        let operands = Operands { into: values_of(&into), out: values_of(&out), slopes: values_of(&slopes), units, x: &x, y: &y };
        let [d_into, d_out, d_slopes] = loops::backward(&operands, values_of(&grad));
        (from_values(d_into, &shape(&into)), from_values(d_out, &shape(&out)), from_values(d_slopes, &shape(&slopes)))
    }
}

#[derive(Debug)]
struct BlockBackward;

impl<B: BlockOps> Backward<B, 3> for BlockBackward {
    type State = (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, Arc<Pattern>, Arc<Pattern>);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (into, out, slopes, x, y) = ops.state;
        let (d_into, d_out, d_slopes) = B::block_backward(into, out, slopes, grad, x, y);
        for (parent, gradient) in ops.parents.into_iter().zip([d_into, d_out, d_slopes]) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

impl<B: BlockOps, C: CheckpointStrategy> BlockOps for Autodiff<B, C> {
    fn block_forward(
        into: FloatTensor<Self>,
        out: FloatTensor<Self>,
        slopes: FloatTensor<Self>,
        x: Arc<Pattern>,
        y: Arc<Pattern>,
    ) -> FloatTensor<Self> {
        let nodes = [into.node(), out.node(), slopes.node()];
        let (into, out, slopes) = (into.into_primitive(), out.into_primitive(), slopes.into_primitive());
        let blocks = B::block_forward(into.clone(), out.clone(), slopes.clone(), x.clone(), y.clone());
        match BlockBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((into, out, slopes, x, y), blocks),
            OpsKind::UnTracked(prep) => prep.finish(blocks),
        }
    }

    /// Reached only from a backward pass, which runs on the inner backend.
    fn block_backward(
        into: FloatTensor<Self>,
        out: FloatTensor<Self>,
        slopes: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        x: Arc<Pattern>,
        y: Arc<Pattern>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (into, out, slopes) = (into.into_primitive(), out.into_primitive(), slopes.into_primitive());
        let (d_into, d_out, d_slopes) = B::block_backward(into, out, slopes, grad.into_primitive(), x, y);
        (untracked::<B, C>(d_into), untracked::<B, C>(d_out), untracked::<B, C>(d_slopes))
    }
}
