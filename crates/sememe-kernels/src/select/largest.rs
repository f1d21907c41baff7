//! Of a matrix the positive entries among the k largest of each row, 0 elsewhere, with a gradient to those that stay.
//!
//! The matrix stays a matrix: for the case that k is a good part of its width.
//! Ties go to the lower column; NaN stays.

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{IndexingUpdateOp, Tensor, activation};
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use crate::dispatch::{dense, is_fused, untracked, values_of};

/// `u` where it is positive and among the `k` largest of its row, 0 elsewhere: `[N, m]`; differentiable.
pub fn keep_largest(u: Tensor<2>, k: usize) -> Tensor<2> {
    if is_fused(&u) { Tensor::from_dispatch(Dispatch::keep_largest(u.into_dispatch(), k)) } else { plain(u, k) }
}

fn plain(u: Tensor<2>, k: usize) -> Tensor<2> {
    let [_, width] = u.dims();
    if k >= width {
        return activation::relu(u);
    }
    let (values, indices) = u.clone().topk_with_indices(k, 1);
    u.zeros_like().scatter(1, indices, activation::relu(values), IndexingUpdateOp::Add)
}

/// The choice and its gradient.
#[backend_extension(Flex, Autodiff)]
pub trait LargestOps: Backend {
    /// `u` where it stays.
    fn keep_largest(u: FloatTensor<Self>, k: usize) -> FloatTensor<Self>;
    /// `grad` where `kept` is not 0.
    fn where_kept(grad: FloatTensor<Self>, kept: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Larger for larger values and, among equal ones, for lower columns.
fn key(value: f32, column: usize) -> u64 {
    u64::from(value.to_bits() & 0x7fff_ffff) << 32 | u64::from(!(column as u32))
}

fn keep_in_row(row: &mut [f32], k: usize, keys: &mut Vec<u64>) {
    // Written such that NaN stays.
    #[allow(clippy::neg_cmp_op_on_partial_ord)]
    row.iter_mut().for_each(|value| *value = if !(*value <= 0.0) { *value } else { 0.0 });
    if k >= row.len() {
        return;
    }
    keys.clear();
    keys.extend(row.iter().enumerate().filter(|(_, value)| **value != 0.0).map(|(column, &value)| key(value, column)));
    if keys.len() > k {
        let (_, _, dropped) = match k {
            0 => {
                row.fill(0.0);
                return;
            }
            k => keys.select_nth_unstable_by(k - 1, |a, b| b.cmp(a)),
        };
        dropped.iter().for_each(|&key| row[!(key as u32) as usize] = 0.0);
    }
}

/// Rows a task of the thread pool.
const ROWS: usize = 32;

impl LargestOps for Flex {
    fn keep_largest(u: FlexTensor, k: usize) -> FlexTensor {
        let mut u = dense(u);
        let width = u.layout().shape()[1].max(1);
        u.storage_mut::<f32>().par_chunks_mut(width).with_min_len(ROWS).for_each_init(Vec::new, |keys, row| keep_in_row(row, k, keys));
        u
    }

    fn where_kept(grad: FlexTensor, kept: FlexTensor) -> FlexTensor {
        let (mut grad, kept) = (dense(grad), dense(kept));
        let width = kept.layout().shape()[1].max(1);
        grad.storage_mut::<f32>().par_chunks_mut(width).zip(values_of(&kept).par_chunks(width)).with_min_len(ROWS).for_each(
            |(grad, kept)| {
                grad.iter_mut().zip(kept).for_each(|(grad, &kept)| *grad = if kept == 0.0 { 0.0 } else { *grad });
            },
        );
        grad
    }
}

#[derive(Debug)]
struct LargestBackward;

impl<B: LargestOps> Backward<B, 1> for LargestBackward {
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        if let [Some(parent)] = ops.parents {
            grads.register::<B>(parent.id, B::where_kept(grad, ops.state));
        }
    }
}

impl<B: LargestOps, C: CheckpointStrategy> LargestOps for Autodiff<B, C> {
    fn keep_largest(u: FloatTensor<Self>, k: usize) -> FloatTensor<Self> {
        let node = u.node();
        let kept = B::keep_largest(u.into_primitive(), k);
        match LargestBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(kept.clone(), kept),
            OpsKind::UnTracked(prep) => prep.finish(kept),
        }
    }

    /// Reached only from a backward pass, which runs on the inner backend.
    fn where_kept(grad: FloatTensor<Self>, kept: FloatTensor<Self>) -> FloatTensor<Self> {
        untracked::<B, C>(B::where_kept(grad.into_primitive(), kept.into_primitive()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution};

    /// Values and gradients equal those of a sort, for fewer and for more than there are positive entries.
    #[test]
    fn fused_equals_plain() {
        let device = Device::flex().autodiff();
        let u = Tensor::<2>::random([50, 23], Distribution::Normal(0.0, 1.0), &device).require_grad();
        let upstream = Tensor::<2>::random([50, 23], Distribution::Normal(0.0, 1.0), &device);
        for k in [1, 4, 12, 22, 23, 40] {
            let (fused, expected) = (keep_largest(u.clone(), k), plain(u.clone(), k));
            fused.to_data().assert_eq(&expected.to_data(), true);
            let gradient = |kept: Tensor<2>| u.grad(&(kept * upstream.clone()).sum().backward()).expect("a gradient").into_data();
            gradient(fused).assert_eq(&gradient(expected), true);
        }
    }

    #[test]
    fn ties_go_to_the_lower_column() {
        let u = Tensor::<2>::from_floats([[1.0, 2.0, 2.0, -1.0, 2.0], [-1.0, -2.0, 0.0, -3.0, 0.5]], &Device::flex());
        let kept = |k| keep_largest(u.clone(), k).into_data().iter::<f32>().collect::<Vec<_>>();
        assert_eq!(kept(2), [0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5]);
        assert_eq!(kept(0), [0.0; 10]);
    }
}
