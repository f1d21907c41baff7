//! The gated hidden layer `φ(u) ⊙ v`, with `u` and `v` the two halves of one projection, in one pass over memory.
//!
//! # Source
//! Shazeer 2020, *GLU variants improve transformer*, arXiv 2002.05202.

use burn::backend::Dispatch;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{ForwardOps, is_plain_cpu};
use crate::{Activation, activate, lanes};

/// `φ(pre[:, ..m]) ⊙ pre[:, m..]` of `pre [N, 2m]`.
pub fn gated(pre: Tensor<2>, phi: Activation) -> Tensor<2> {
    if is_plain_cpu(&pre) {
        return Tensor::from_dispatch(Dispatch::fused_gated(pre.into_dispatch(), phi));
    }
    let width = pre.dims()[1] / 2;
    activate(pre.clone().narrow(1, 0, width), phi) * pre.narrow(1, width, width)
}

pub(super) fn fused(pre: &[f32], width: usize, phi: Activation) -> Vec<f32> {
    let mut output = vec![0.0; pre.len() / 2];
    output.par_chunks_mut(width).zip(pre.par_chunks(2 * width)).with_min_len(8).for_each(|(y, pre)| {
        let (u, v) = pre.split_at(width);
        lanes::gated(u, v, y, phi);
    });
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    #[test]
    fn fused_equals_plain() {
        let device = Device::flex();
        let pre: Tensor<2> = Tensor::random([19, 62], Distribution::Normal(0.0, 2.0), &device);
        for phi in Activation::ALL {
            let lifted = Tensor::from_data(pre.clone().into_data(), &device.clone().autodiff());
            let plain = gated(lifted, phi).into_data();
            gated(pre.clone(), phi).into_data().assert_approx_eq::<f32>(&plain, Tolerance::absolute(1e-5));
        }
    }
}
