//! Norms of the rows of a matrix, each cut into equal parts whose norms are summed, with a gradient of one pass over the matrix.
//!
//! `W [n, L·d]`, `r_i = Σ_l ‖W_i^l‖`, and with a gradient g in r, `∂/∂W_i^l = g_i W_i^l/‖W_i^l‖`, 0 where a part is 0.
//! Differentiated operation by operation, the same takes five matrices of the size of W.

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use crate::dispatch::{dense, is_fused, untracked, values_of};
use crate::lanes::wide;

/// `Σ_l ‖W_i^l‖` of each row of `matrix [n, d]`, cut into `parts` equal parts: `[n]`; differentiable.
///
/// # Panics
/// When a row cannot be cut into `parts` equal parts.
pub fn row_norms(matrix: Tensor<2>, parts: usize) -> Tensor<1> {
    let width = matrix.dims()[1];
    assert!(parts > 0 && width > 0 && width.is_multiple_of(parts), "a row of {width} cannot be cut into {parts} parts");
    if is_fused(&matrix) { Tensor::from_dispatch(Dispatch::row_norms(matrix.into_dispatch(), parts)) } else { plain(matrix, parts) }
}

fn plain(matrix: Tensor<2>, parts: usize) -> Tensor<1> {
    let [n, width] = matrix.dims();
    let cut = matrix.reshape([n, parts, width / parts]);
    (cut.clone() * cut).sum_dim(2).sqrt().sum_dim(1).reshape([n])
}

/// The norms and their gradient.
#[backend_extension(Flex, Autodiff)]
pub trait NormOps: Backend {
    /// `Σ_l ‖W_i^l‖`.
    fn row_norms(matrix: FloatTensor<Self>, parts: usize) -> FloatTensor<Self>;
    /// `g_i W_i^l/‖W_i^l‖`.
    fn row_directions(grad: FloatTensor<Self>, matrix: FloatTensor<Self>, parts: usize) -> FloatTensor<Self>;
}

/// Partial sums, so that a sum vectorises.
const LANES: usize = 16;

wide! {
    /// `norm = ‖row‖`.
    fn norm_of(row: &[f32], norm: &mut f32) {
        let (whole, rest) = row.as_chunks::<LANES>();
        let mut sums = [0.0_f32; LANES];
        for chunk in whole {
            for i in 0..LANES {
                sums[i] += chunk[i] * chunk[i];
            }
        }
        *norm = (sums.iter().sum::<f32>() + rest.iter().map(|v| v * v).sum::<f32>()).sqrt();
    }
}

/// Rows a task of the thread pool.
const ROWS: usize = 64;

impl NormOps for Flex {
    fn row_norms(matrix: FlexTensor, parts: usize) -> FlexTensor {
        let matrix = dense(matrix);
        let width = matrix.layout().shape()[1];
        let norms: Vec<f32> = values_of(&matrix)
            .par_chunks(width)
            .with_min_len(ROWS)
            .map(|row| {
                let mut total = 0.0;
                for part in row.chunks(width / parts) {
                    let mut norm = 0.0;
                    norm_of(part, &mut norm);
                    total += norm;
                }
                total
            })
            .collect();
        let count = norms.len();
        FlexTensor::from_data(burn::tensor::TensorData::new(norms, [count]))
    }

    fn row_directions(grad: FlexTensor, matrix: FlexTensor, parts: usize) -> FlexTensor {
        let (grad, matrix) = (dense(grad), dense(matrix));
        let width = matrix.layout().shape()[1];
        let mut out = FlexTensor::empty(matrix.layout().shape().clone(), burn::tensor::DType::F32);
        out.storage_mut::<f32>()
            .par_chunks_mut(width)
            .zip(values_of(&matrix).par_chunks(width))
            .zip(values_of(&grad).par_iter())
            .with_min_len(ROWS)
            .for_each(|((out, row), &grad)| {
                for (out, part) in out.chunks_mut(width / parts).zip(row.chunks(width / parts)) {
                    let mut norm = 0.0;
                    norm_of(part, &mut norm);
                    let factor = if norm == 0.0 { 0.0 } else { grad / norm };
                    out.iter_mut().zip(part).for_each(|(out, value)| *out = factor * value);
                }
            });
        out
    }
}

#[derive(Debug)]
struct NormsBackward;

impl<B: NormOps> Backward<B, 1> for NormsBackward {
    type State = (FloatTensor<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (matrix, parts) = ops.state;
        if let [Some(parent)] = ops.parents {
            grads.register::<B>(parent.id, B::row_directions(grad, matrix, parts));
        }
    }
}

impl<B: NormOps, C: CheckpointStrategy> NormOps for Autodiff<B, C> {
    fn row_norms(matrix: FloatTensor<Self>, parts: usize) -> FloatTensor<Self> {
        let node = matrix.node();
        let matrix = matrix.into_primitive();
        let output = B::row_norms(matrix.clone(), parts);
        match NormsBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((matrix, parts), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    /// Reached only from a backward pass, which runs on the inner backend.
    fn row_directions(grad: FloatTensor<Self>, matrix: FloatTensor<Self>, parts: usize) -> FloatTensor<Self> {
        untracked::<B, C>(B::row_directions(grad.into_primitive(), matrix.into_primitive(), parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    /// Values and gradients equal those of ordinary operations, whole rows and cut ones.
    #[test]
    fn fused_equals_plain() {
        let device = Device::flex().autodiff();
        for (n, width, parts) in [(3, 4, 1), (70, 48, 1), (5, 75, 3), (200, 34, 2)] {
            let matrix = Tensor::<2>::random([n, width], Distribution::Normal(0.0, 1.0), &device).require_grad();
            let upstream = Tensor::<1>::random([n], Distribution::Normal(0.0, 1.0), &device);
            let (fused, expected) = (row_norms(matrix.clone(), parts), plain(matrix.clone(), parts));
            fused.clone().into_data().assert_approx_eq::<f32>(&expected.clone().into_data(), Tolerance::absolute(1e-5));
            let gradient = |norms: Tensor<1>| matrix.grad(&(norms * upstream.clone()).sum().backward()).expect("a gradient").into_data();
            gradient(fused).assert_approx_eq::<f32>(&gradient(expected), Tolerance::absolute(1e-5));
        }
    }

    #[test]
    fn a_row_of_zeros_has_no_direction() {
        let device = Device::flex().autodiff();
        let matrix = Tensor::<2>::from_floats([[0.0, 0.0], [3.0, 4.0]], &device).require_grad();
        let norms = row_norms(matrix.clone(), 1);
        assert_eq!(norms.to_data().iter::<f32>().collect::<Vec<_>>(), [0.0, 5.0]);
        let gradient = matrix.grad(&norms.sum().backward()).expect("a gradient").into_data();
        assert_eq!(gradient.iter::<f32>().collect::<Vec<_>>(), [0.0, 0.0, 0.6, 0.8]);
    }
}
