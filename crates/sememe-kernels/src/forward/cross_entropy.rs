//! Cross-entropy of each row in nats, `−ln softmax(logits)[target]`, in one pass over the logits.

use burn::backend::Dispatch;
use burn::tensor::{Int, Tensor, TensorData, activation};
use rayon::prelude::*;

use super::{ForwardOps, is_plain_cpu};
use crate::lanes;

/// `−ln softmax(logits)[n, targets[n]]` for the rows of `logits [N, V]`.
///
/// # Panics
/// When there are not N targets, or one is no column.
pub fn cross_entropy(logits: Tensor<2>, targets: &[u32]) -> Tensor<1> {
    let [rows, width] = logits.dims();
    assert_eq!(rows, targets.len(), "one target a row");
    assert!(targets.iter().all(|&target| (target as usize) < width), "a target is no column of the logits");
    if is_plain_cpu(&logits) {
        return Tensor::from_dispatch(Dispatch::fused_cross_entropy(logits.into_dispatch(), targets.to_vec()));
    }
    let index: Vec<i32> = targets.iter().map(|&target| target as i32).collect();
    let index: Tensor<2, Int> = Tensor::from_data(TensorData::new(index, [rows, 1]), &logits.device());
    activation::log_softmax(logits, 1).gather(1, index).neg().reshape([rows])
}

pub(super) fn fused(logits: &[f32], targets: &[u32], width: usize) -> Vec<f32> {
    let row = |(logits, &target): (&[f32], &u32)| {
        let mut statistics = [0.0_f32; 2];
        lanes::log_sum_exp(logits, &mut statistics);
        statistics[0] + statistics[1].ln() - logits[target as usize]
    };
    logits.par_chunks(width).zip(targets).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    #[test]
    fn fused_equals_plain_and_uniform_is_ln_v() {
        let device = Device::flex();
        let logits: Tensor<2> = Tensor::random([5, 131], Distribution::Normal(0.0, 4.0), &device);
        let targets = [0, 130, 7, 64, 99];
        let lifted = Tensor::from_data(logits.clone().into_data(), &device.clone().autodiff());
        let plain = cross_entropy(lifted, &targets).into_data();
        cross_entropy(logits, &targets).into_data().assert_approx_eq::<f32>(&plain, Tolerance::absolute(1e-4));
        let uniform: Vec<f32> = cross_entropy(Tensor::zeros([1, 10], &device), &[3]).into_data().try_to_vec().unwrap_or_default();
        assert!((uniform[0] - 10_f32.ln()).abs() < 1e-6);
    }
}
