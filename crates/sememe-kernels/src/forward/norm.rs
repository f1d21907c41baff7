//! RMS norm and layer norm over the last dimension, in one pass a row.
//!
//! - RMS norm   `y = γ ⊙ x / √(mean(x²) + ε)`
//! - layer norm `y = γ ⊙ (x − μ)/√(var(x) + ε) + β`
//!
//! # Source
//! Zhang & Sennrich 2019, arXiv 1910.07467; Ba et al. 2016, arXiv 1607.06450.

use burn::backend::Dispatch;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{ForwardOps, is_plain_cpu};
use crate::lanes;

/// RMS norm of the rows of `x [N, d]` with `gain [d]`.
pub fn rms_norm(x: Tensor<2>, gain: Tensor<1>, epsilon: f64) -> Tensor<2> {
    if is_plain_cpu(&x) {
        return Tensor::from_dispatch(Dispatch::fused_rms_norm(x.into_dispatch(), gain.into_dispatch(), epsilon));
    }
    let inverse = ((x.clone() * x.clone()).mean_dim(1) + epsilon).sqrt().recip();
    x * inverse * gain.unsqueeze::<2>()
}

/// Layer norm of the rows of `x [N, d]` with `gain [d]` and `bias [d]`.
pub fn layer_norm(x: Tensor<2>, gain: Tensor<1>, bias: Tensor<1>, epsilon: f64) -> Tensor<2> {
    if is_plain_cpu(&x) {
        let output = Dispatch::fused_layer_norm(x.into_dispatch(), gain.into_dispatch(), bias.into_dispatch(), epsilon);
        return Tensor::from_dispatch(output);
    }
    let centred = x.clone() - x.mean_dim(1);
    let inverse = ((centred.clone() * centred.clone()).mean_dim(1) + epsilon).sqrt().recip();
    centred * inverse * gain.unsqueeze::<2>() + bias.unsqueeze::<2>()
}

/// Rows a task.
const ROWS: usize = 16;

pub(super) fn rms(x: &[f32], gain: &[f32], epsilon: f32) -> Vec<f32> {
    let width = gain.len();
    let mut output = vec![0.0; x.len()];
    output.par_chunks_mut(ROWS * width).zip(x.par_chunks(ROWS * width)).for_each(|(y, x)| lanes::rms_rows(x, gain, y, epsilon));
    output
}

pub(super) fn layer(x: &[f32], gain: &[f32], bias: &[f32], epsilon: f32) -> Vec<f32> {
    let width = gain.len();
    let mut output = vec![0.0; x.len()];
    output
        .par_chunks_mut(ROWS * width)
        .zip(x.par_chunks(ROWS * width))
        .for_each(|(y, x)| lanes::layer_norm_rows(x, gain, bias, y, epsilon));
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    #[test]
    fn fused_equals_plain() {
        let device = Device::flex();
        let x: Tensor<2> = Tensor::random([37, 45], Distribution::Normal(0.3, 2.0), &device);
        let gain: Tensor<1> = Tensor::random([45], Distribution::Normal(1.0, 0.5), &device);
        let bias: Tensor<1> = Tensor::random([45], Distribution::Normal(0.0, 0.5), &device);
        let lift = |t: Tensor<2>| Tensor::<2>::from_data(t.into_data(), &device.clone().autodiff());
        let lift1 = |t: Tensor<1>| Tensor::<1>::from_data(t.into_data(), &device.clone().autodiff());
        let plain = rms_norm(lift(x.clone()), lift1(gain.clone()), 1e-5);
        rms_norm(x.clone(), gain.clone(), 1e-5).into_data().assert_approx_eq::<f32>(&plain.into_data(), Tolerance::absolute(1e-5));
        let plain = layer_norm(lift(x.clone()), lift1(gain.clone()), lift1(bias.clone()), 1e-5);
        layer_norm(x, gain, bias, 1e-5).into_data().assert_approx_eq::<f32>(&plain.into_data(), Tolerance::absolute(1e-5));
    }

    /// By hand: (3, 4) has root mean square √12.5.
    #[test]
    fn rms_norm_by_hand() {
        let device = Device::flex();
        let y = rms_norm(Tensor::from_floats([[3.0, 4.0]], &device), Tensor::from_floats([1.0, 2.0], &device), 0.0);
        let root = 12.5_f32.sqrt();
        y.into_data().assert_approx_eq::<f32>(&burn::tensor::TensorData::from([[3.0 / root, 8.0 / root]]), Tolerance::absolute(1e-6));
    }
}
