//! The sparse products by ordinary tensor operations: the oracle of the fused ones, and the path on other devices.

use burn::tensor::{Device, IndexingUpdateOp, Int, Tensor, TensorData};

use super::Pattern;

fn indices(of: &[u32], device: &Device) -> Tensor<1, Int> {
    let of: Vec<i32> = of.iter().map(|&index| index as i32).collect();
    let count = of.len();
    Tensor::from_data(TensorData::new(of, [count]), device)
}

/// `[rows, d]`; see [`super::sparse_decode`].
pub fn decode(values: Tensor<1>, dictionary: Tensor<2>, pattern: &Pattern) -> Tensor<2> {
    let (device, width) = (values.device(), dictionary.dims()[1]);
    let out = Tensor::zeros([pattern.rows(), width], &device);
    if pattern.entries() == 0 {
        return out;
    }
    let terms = dictionary.select(0, indices(pattern.latents(), &device)) * values.unsqueeze_dim::<2>(1);
    out.select_assign(0, indices(&pattern.row_of_entries(), &device), terms, IndexingUpdateOp::Add)
}

/// `[entries]`; see [`super::sparse_encode`].
pub fn encode(x: Tensor<2>, centre: Tensor<1>, weight: Tensor<2>, bias: Tensor<1>, pattern: &Pattern) -> Tensor<1> {
    let device = x.device();
    if pattern.entries() == 0 {
        return Tensor::zeros([0], &device);
    }
    let latents = indices(pattern.latents(), &device);
    let rows = (x - centre.unsqueeze_dim::<2>(0)).select(0, indices(&pattern.row_of_entries(), &device));
    (rows * weight.select(0, latents.clone())).sum_dim(1).squeeze_dim::<1>(1) + bias.select(0, latents)
}

/// `[entries]`; see [`super::sparse_spread`].
pub fn spread(vector: Tensor<1>, pattern: &Pattern) -> Tensor<1> {
    let device = vector.device();
    if pattern.entries() == 0 {
        return Tensor::zeros([0], &device);
    }
    vector.select(0, indices(pattern.latents(), &device))
}
