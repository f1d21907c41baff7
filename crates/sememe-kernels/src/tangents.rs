//! An activation applied to a value and to its tangents in one pass over memory each.
//!
//! With `u [N, …]` the pre-activation and `u̇ [k·N, …]` its k tangents (block
//! c holds the tangents of direction c for all N samples):
//!
//! - value    `y = φ(u)`,           reverse `ū += ȳ ⊙ φ′(u)`
//! - tangents `ẏ_c = φ′(u) ⊙ u̇_c`,  reverse `u̇̄_c += ẏ̄_c ⊙ φ′(u)` and `ū += φ″(u) ⊙ Σ_c ẏ̄_c ⊙ u̇_c`
//!
//! φ′ and φ″ are evaluated once an element of `u` and reused for all k blocks;
//! ordinary tensor operations evaluate and store them several times.
//!
//! # Source
//! Forward-mode differentiation: Griewank & Walther 2008, *Evaluating Derivatives*, §3.1; reverse over forward: §5.

use burn::backend::Dispatch;
use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::dispatch::{KernelOps, is_fused};
use crate::{Activation, lanes};

/// `φ(pre)`, element by element; `pre` of any shape.
pub fn activate<const D: usize>(pre: Tensor<D>, phi: Activation) -> Tensor<D> {
    if phi == Activation::Identity {
        pre
    } else if is_fused(&pre) {
        Tensor::from_dispatch(Dispatch::activate(pre.into_dispatch(), phi))
    } else {
        phi.value_plain(pre)
    }
}

/// `φ′(pre) ⊙ tangents`, `tangents [k·N, …]` holding k blocks of the shape of `pre [N, …]`.
///
/// Differentiable in both arguments.
///
/// # Panics
/// When the number of elements of `tangents` is no multiple of that of `pre`.
pub fn scale_tangents<const D: usize>(tangents: Tensor<D>, pre: Tensor<D>, phi: Activation) -> Tensor<D> {
    let (total, block) = (tangents.shape().num_elements(), pre.shape().num_elements());
    assert!(block > 0 && total % block == 0, "{total} tangent elements are no multiple of {block} values");
    if phi == Activation::Identity {
        tangents
    } else if is_fused(&tangents) && is_fused(&pre) {
        Tensor::from_dispatch(Dispatch::scale_tangents(tangents.into_dispatch(), pre.into_dispatch(), phi))
    } else {
        let dims = tangents.shape();
        let slope = phi.slope_plain(pre).reshape([1, block]);
        (tangents.reshape([total / block, block]) * slope).reshape(dims)
    }
}

/// Elements a task of the thread pool: enough to repay its start.
const CHUNK: usize = 1 << 14;

/// `f(input, output)` chunk by chunk, in parallel where there is more than one.
fn in_chunks(input: &[f32], f: impl Fn(&[f32], &mut [f32]) + Sync) -> Vec<f32> {
    let mut output = vec![0.0; input.len()];
    if input.len() <= CHUNK {
        f(input, &mut output);
    } else {
        output.par_chunks_mut(CHUNK).zip(input.par_chunks(CHUNK)).for_each(|(output, input)| f(input, output));
    }
    output
}

pub(crate) fn value(pre: &[f32], phi: Activation) -> Vec<f32> {
    in_chunks(pre, |u, y| lanes::value(u, y, phi))
}

pub(crate) fn scale(tangents: &[f32], pre: &[f32], phi: Activation) -> Vec<f32> {
    let mut output = vec![0.0; tangents.len()];
    if tangents.len() == pre.len() {
        output
            .par_chunks_mut(CHUNK)
            .zip(tangents.par_chunks(CHUNK))
            .zip(pre.par_chunks(CHUNK))
            .for_each(|((output, tangents), pre)| lanes::times_slope(tangents, pre, output, phi));
        return output;
    }
    let slope = in_chunks(pre, |u, y| lanes::slope(u, y, phi));
    output
        .par_chunks_mut(pre.len())
        .zip(tangents.par_chunks(pre.len()))
        .with_min_len(CHUNK.div_ceil(pre.len()))
        .for_each(|(output, tangents)| lanes::product(tangents, &slope, output));
    output
}

pub(crate) fn scale_backward(tangents: &[f32], pre: &[f32], grad: &[f32], phi: Activation) -> Vec<f32> {
    let block = pre.len();
    let mut output = vec![0.0; block];
    output.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, output)| {
        let start = chunk * CHUNK;
        for c in 0..tangents.len() / block {
            let at = c * block + start;
            lanes::add_product(&tangents[at..at + output.len()], &grad[at..at + output.len()], output);
        }
        lanes::by_curvature(&pre[start..start + output.len()], output, phi);
    });
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    /// Values and both gradients of the fused pair equal those of ordinary operations.
    #[test]
    fn fused_equals_plain() {
        let device = Device::flex().autodiff();
        for phi in Activation::ALL {
            let pre: Tensor<2> = Tensor::random([5, 7], Distribution::Normal(0.0, 1.5), &device).require_grad();
            let tangents: Tensor<2> = Tensor::random([15, 7], Distribution::Normal(0.0, 1.0), &device).require_grad();
            let weight: Tensor<2> = Tensor::random([15, 7], Distribution::Normal(0.0, 1.0), &device);
            let plain = {
                let slope = phi.slope_plain(pre.clone()).repeat_dim(0, 3);
                (tangents.clone() * slope * weight.clone()).sum() + phi.value_plain(pre.clone()).sum()
            };
            let fused = (scale_tangents(tangents.clone(), pre.clone(), phi) * weight).sum() + activate(pre.clone(), phi).sum();
            plain.clone().into_data().assert_approx_eq::<f32>(&fused.clone().into_data(), Tolerance::absolute(1e-4));
            let (by_plain, by_fused) = (plain.backward(), fused.backward());
            for tensor in [&pre, &tangents] {
                let (Some(expected), Some(got)) = (tensor.grad(&by_plain), tensor.grad(&by_fused)) else { panic!("{phi:?}: no gradient") };
                got.into_data().assert_approx_eq::<f32>(&expected.into_data(), Tolerance::absolute(2e-5));
            }
        }
    }
}
