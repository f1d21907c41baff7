//! Routing of the sparse products to the CPU device, and their hand-written backward passes.

use std::sync::Arc;

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};
use burn::tensor::Shape;
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use super::{Pattern, loops};
use crate::dispatch::{dense, untracked, values_of};

/// The derivatives of the trilinear form, and the bias's; `[n, d]` matrices and `[entries]` values.
#[backend_extension(Flex, Autodiff)]
pub trait SparseOps: Backend {
    /// `Σ_{e in row t} v_e W[i_e]`.
    fn sparse_decode(values: FloatTensor<Self>, dictionary: FloatTensor<Self>, pattern: Arc<Pattern>) -> FloatTensor<Self>;
    /// `(x[t_e] − c) · W[i_e] + b[i_e]`; `known` holds it already, or nothing.
    fn sparse_encode(
        x: FloatTensor<Self>,
        centre: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        known: FloatTensor<Self>,
        pattern: Arc<Pattern>,
    ) -> FloatTensor<Self>;
    /// `r[t_e] · W[i_e]`.
    fn sparse_dot(rows: FloatTensor<Self>, dictionary: FloatTensor<Self>, pattern: Arc<Pattern>) -> FloatTensor<Self>;
    /// `Σ_{e of latent i} v_e r[t_e]`.
    fn sparse_outer(values: FloatTensor<Self>, rows: FloatTensor<Self>, pattern: Arc<Pattern>) -> FloatTensor<Self>;
    /// `x − c`, row by row.
    fn centred(x: FloatTensor<Self>, centre: FloatTensor<Self>) -> FloatTensor<Self>;
    /// `a[i_e]`.
    fn sparse_spread(vector: FloatTensor<Self>, pattern: Arc<Pattern>) -> FloatTensor<Self>;
    /// `Σ_{e of latent i} v_e`.
    fn sparse_sum(values: FloatTensor<Self>, pattern: Arc<Pattern>) -> FloatTensor<Self>;
    /// `−Σ_i s_i W[i]`: the gradient in c, s being the gradient in b.
    fn minus_combination(sums: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;
}

fn width(matrix: &FlexTensor) -> usize {
    matrix.layout().shape()[1]
}

/// A tensor whose storage `fill` writes in full.
fn written(shape: Vec<usize>, fill: impl FnOnce(&mut [f32])) -> FlexTensor {
    let mut out = FlexTensor::empty(Shape::from(shape), burn::tensor::DType::F32);
    fill(out.storage_mut());
    out
}

fn from_values(values: Vec<f32>, shape: Vec<usize>) -> FlexTensor {
    FlexTensor::from_data(burn::tensor::TensorData::new(values, shape))
}

impl SparseOps for Flex {
    fn sparse_decode(values: FlexTensor, dictionary: FlexTensor, pattern: Arc<Pattern>) -> FlexTensor {
        let (values, dictionary) = (dense(values), dense(dictionary));
        let (rows, width) = (pattern.rows(), width(&dictionary));
        from_values(loops::decode(values_of(&values), values_of(&dictionary), width, &pattern), vec![rows, width])
    }

    fn sparse_encode(
        x: FlexTensor,
        centre: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        known: FlexTensor,
        pattern: Arc<Pattern>,
    ) -> FlexTensor {
        if known.layout().num_elements() == pattern.entries() {
            return known;
        }
        let bias = dense(bias);
        let mut out = Self::sparse_dot(Self::centred(x, centre), weight, pattern.clone());
        let bias = values_of(&bias);
        out.storage_mut::<f32>().iter_mut().zip(pattern.latents()).for_each(|(out, &latent)| *out += bias[latent as usize]);
        out
    }

    fn sparse_dot(rows: FlexTensor, dictionary: FlexTensor, pattern: Arc<Pattern>) -> FlexTensor {
        let (rows, dictionary) = (dense(rows), dense(dictionary));
        written(vec![pattern.entries()], |out| loops::dot(values_of(&rows), values_of(&dictionary), &pattern, out))
    }

    fn sparse_outer(values: FlexTensor, rows: FlexTensor, pattern: Arc<Pattern>) -> FlexTensor {
        let (values, rows) = (dense(values), dense(rows));
        let width = width(&rows);
        from_values(loops::outer(values_of(&values), values_of(&rows), width, &pattern), vec![pattern.n(), width])
    }

    fn centred(x: FlexTensor, centre: FlexTensor) -> FlexTensor {
        let (x, centre) = (dense(x), dense(centre));
        let centre = values_of(&centre);
        if centre.iter().all(|&c| c == 0.0) {
            return x;
        }
        written(x.layout().shape().to_vec(), |out| {
            out.par_chunks_mut(centre.len()).zip(values_of(&x).par_chunks(centre.len())).with_min_len(16).for_each(|(out, row)| {
                out.iter_mut().zip(row).zip(centre).for_each(|((out, x), c)| *out = x - c);
            });
        })
    }

    fn sparse_spread(vector: FlexTensor, pattern: Arc<Pattern>) -> FlexTensor {
        let vector = dense(vector);
        written(vec![pattern.entries()], |out| loops::spread(values_of(&vector), &pattern, out))
    }

    fn sparse_sum(values: FlexTensor, pattern: Arc<Pattern>) -> FlexTensor {
        let values = dense(values);
        written(vec![pattern.n()], |out| loops::sum(values_of(&values), &pattern, out))
    }

    fn minus_combination(sums: FlexTensor, weight: FlexTensor) -> FlexTensor {
        let (sums, weight) = (dense(sums), dense(weight));
        let factors: Vec<f32> = values_of(&sums).iter().map(|s| -s).collect();
        written(vec![width(&weight)], |out| loops::combination(&factors, values_of(&weight), out))
    }
}

#[derive(Debug)]
struct DecodeBackward;

impl<B: SparseOps> Backward<B, 2> for DecodeBackward {
    type State = (FloatTensor<B>, FloatTensor<B>, Arc<Pattern>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (values, dictionary, pattern) = ops.state;
        let [for_values, for_dictionary] = ops.parents;
        if let Some(parent) = for_values {
            grads.register::<B>(parent.id, B::sparse_dot(grad.clone(), dictionary, pattern.clone()));
        }
        if let Some(parent) = for_dictionary {
            grads.register::<B>(parent.id, B::sparse_outer(values, grad, pattern));
        }
    }
}

#[derive(Debug)]
struct EncodeBackward;

impl<B: SparseOps> Backward<B, 4> for EncodeBackward {
    type State = (FloatTensor<B>, FloatTensor<B>, Arc<Pattern>);

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (centred, weight, pattern) = ops.state;
        let [for_x, for_centre, for_weight, for_bias] = ops.parents;
        let sums = B::sparse_sum(grad.clone(), pattern.clone());
        if let Some(parent) = for_x {
            grads.register::<B>(parent.id, B::sparse_decode(grad.clone(), weight.clone(), pattern.clone()));
        }
        if let Some(parent) = for_centre {
            grads.register::<B>(parent.id, B::minus_combination(sums.clone(), weight));
        }
        if let Some(parent) = for_weight {
            grads.register::<B>(parent.id, B::sparse_outer(grad, centred, pattern));
        }
        if let Some(parent) = for_bias {
            grads.register::<B>(parent.id, sums);
        }
    }
}

#[derive(Debug)]
struct SpreadBackward;

impl<B: SparseOps> Backward<B, 1> for SpreadBackward {
    type State = Arc<Pattern>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        if let [Some(parent)] = ops.parents {
            grads.register::<B>(parent.id, B::sparse_sum(grad, ops.state));
        }
    }
}

impl<B: SparseOps, C: CheckpointStrategy> SparseOps for Autodiff<B, C> {
    fn sparse_decode(values: FloatTensor<Self>, dictionary: FloatTensor<Self>, pattern: Arc<Pattern>) -> FloatTensor<Self> {
        match DecodeBackward.prepare::<C>([values.node(), dictionary.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (values, dictionary) = (values.into_primitive(), dictionary.into_primitive());
                let output = B::sparse_decode(values.clone(), dictionary.clone(), pattern.clone());
                prep.finish((values, dictionary, pattern), output)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::sparse_decode(values.into_primitive(), dictionary.into_primitive(), pattern)),
        }
    }

    fn sparse_encode(
        x: FloatTensor<Self>,
        centre: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        known: FloatTensor<Self>,
        pattern: Arc<Pattern>,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), centre.node(), weight.node(), bias.node()];
        let (x, centre, weight) = (x.into_primitive(), centre.into_primitive(), weight.into_primitive());
        let output =
            B::sparse_encode(x.clone(), centre.clone(), weight.clone(), bias.into_primitive(), known.into_primitive(), pattern.clone());
        match EncodeBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((B::centred(x, centre), weight, pattern), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn sparse_dot(rows: FloatTensor<Self>, dictionary: FloatTensor<Self>, pattern: Arc<Pattern>) -> FloatTensor<Self> {
        untracked::<B, C>(B::sparse_dot(rows.into_primitive(), dictionary.into_primitive(), pattern))
    }

    fn sparse_outer(values: FloatTensor<Self>, rows: FloatTensor<Self>, pattern: Arc<Pattern>) -> FloatTensor<Self> {
        untracked::<B, C>(B::sparse_outer(values.into_primitive(), rows.into_primitive(), pattern))
    }

    fn centred(x: FloatTensor<Self>, centre: FloatTensor<Self>) -> FloatTensor<Self> {
        untracked::<B, C>(B::centred(x.into_primitive(), centre.into_primitive()))
    }

    fn sparse_spread(vector: FloatTensor<Self>, pattern: Arc<Pattern>) -> FloatTensor<Self> {
        let node = vector.node();
        let output = B::sparse_spread(vector.into_primitive(), pattern.clone());
        match SpreadBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(pattern, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn sparse_sum(values: FloatTensor<Self>, pattern: Arc<Pattern>) -> FloatTensor<Self> {
        untracked::<B, C>(B::sparse_sum(values.into_primitive(), pattern))
    }

    fn minus_combination(sums: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        untracked::<B, C>(B::minus_combination(sums.into_primitive(), weight.into_primitive()))
    }
}
