//! The choice of active latents by an ordinary product and sort: the oracle of the stream, and the path on other devices.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::Choice;
use crate::Pattern;

/// As [`super::encode_top`], of `x` that is centred already.
pub fn encode_top(x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>, choice: &Choice) -> (Arc<Pattern>, Tensor<1>) {
    let device = x.device();
    let ([rows, _], n) = (x.dims(), weight.dims()[0]);
    let pre = x.matmul(weight.transpose()) + bias.unsqueeze_dim::<2>(0);
    let flat_of = |values: Vec<f32>, flat: Vec<usize>| -> Vec<(usize, f32)> {
        flat.into_iter().zip(values).filter(|(_, value)| value.is_nan() || *value > 0.0).collect()
    };
    let mut active = match choice {
        Choice::PerRow(k) => {
            let k = (*k).min(n);
            let (values, indices) = pre.topk_with_indices(k, 1);
            let flat = indices.into_data().iter::<i64>().enumerate().map(|(at, latent)| at / k * n + latent as usize).collect();
            flat_of(values.into_data().iter().collect(), flat)
        }
        Choice::WholeBatch(k) => {
            let (values, indices) = pre.reshape([rows * n]).topk_with_indices((k * rows).min(rows * n), 0);
            flat_of(values.into_data().iter().collect(), indices.into_data().iter::<i64>().map(|flat| flat as usize).collect())
        }
        Choice::Above(thresholds) => {
            let thresholds: Vec<f32> = thresholds.to_data().iter().collect();
            let all = flat_of(pre.into_data().iter().collect(), (0..rows * n).collect());
            all.into_iter().filter(|&(flat, value)| value.is_nan() || value > thresholds[flat % n]).collect()
        }
        Choice::Over(thresholds) => {
            let thresholds: Vec<f32> = thresholds.to_data().iter().collect();
            let all = pre.into_data().iter::<f32>().enumerate().collect::<Vec<_>>();
            all.into_iter().filter(|&(flat, value)| value.is_nan() || value > thresholds[flat % n]).collect()
        }
    };
    active.sort_unstable_by_key(|&(flat, _)| flat);
    let mut starts = vec![0_u32; rows + 1];
    for &(flat, _) in &active {
        starts[flat / n + 1] += 1;
    }
    for row in 0..rows {
        starts[row + 1] += starts[row];
    }
    let latents = active.iter().map(|&(flat, _)| (flat % n) as u32).collect();
    let values: Vec<f32> = active.iter().map(|&(_, value)| value).collect();
    let count = values.len();
    (Arc::new(Pattern::new(starts, latents, n)), Tensor::from_data(TensorData::new(values, [count]), &device))
}
