//! The Jacobian's blocks by ordinary tensor operations: the oracle of the fused ones, and the path on other devices.
//!
//! Tokens with fewer active latents than others are padded with a row of zeros, so that all blocks are one batched product.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::Pattern;

fn indices(of: Vec<i32>, device: &Device) -> Tensor<1, Int> {
    let count = of.len();
    Tensor::from_data(TensorData::new(of, [count]), device)
}

/// Rows of the latents of each token, with rows of 0 where a token has fewer than others: `[N, most, width]`.
fn gathered(matrix: Tensor<2>, pattern: &Pattern, most: usize) -> Tensor<3> {
    let (device, width) = (matrix.device(), matrix.dims()[1]);
    let padded = (0..pattern.rows()).flat_map(|row| {
        let latents = pattern.row(row);
        latents.iter().map(|&latent| latent as i32).chain(std::iter::repeat_n(pattern.n() as i32, most - latents.len()))
    });
    let with_zeros = Tensor::cat(vec![matrix, Tensor::zeros([1, width], &device)], 0);
    with_zeros.select(0, indices(padded.collect(), &device)).reshape([pattern.rows(), most, width])
}

/// See [`super::jacobian_blocks`].
pub(super) fn blocks(into: Tensor<2>, out: Tensor<2>, slopes: Tensor<2>, x: &Pattern, y: &Pattern) -> Tensor<1> {
    let (device, rows, h) = (into.device(), x.rows(), out.dims()[1]);
    let branches = slopes.dims()[1] / h;
    let most = |pattern: &Pattern| (0..rows).map(|row| pattern.range(row).len()).max().unwrap_or(0);
    let (most_x, most_y) = (most(x), most(y));
    if most_x * most_y == 0 {
        return Tensor::zeros([0], &device);
    }
    let scaled = gathered(into, x, most_x) * slopes.unsqueeze_dim::<3>(1);
    let pushed = scaled.reshape([rows, most_x, branches, h]).sum_dim(2).reshape([rows, most_x, h]);
    let all = gathered(out, y, most_y).matmul(pushed.swap_dims(1, 2)).reshape([rows * most_y * most_x]);
    let at = (0..rows).flat_map(|row| {
        let (k_x, k_y) = (x.range(row).len(), y.range(row).len());
        (0..k_y).flat_map(move |b| (0..k_x).map(move |a| ((row * most_y + b) * most_x + a) as i32))
    });
    all.select(0, indices(at.collect(), &device))
}
