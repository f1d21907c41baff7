//! Blocks of a Jacobian between sparse codes, a block a token, and the penalty on them.
//!
//! A pair of dictionaries around a layer (`crates/sememe/src/pair`) and a dictionary with a nonlinear decoder
//! (`crates/sememe/src/dictionary/nonlinear.rs`) both have such blocks.

mod term;

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData};
use sememe_kernels::{Pattern, sparse_decode};

pub use term::{JacobianTerm, JacobianTermError, Normalise};

/// The blocks of a batch.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// `J[t, b, a]`, token after token, a row a latent of y: `[Σ_t k_y k_x]`.
    pub entries: Tensor<1>,
    /// Where each token's block begins, and the end of the last.
    pub starts: Vec<usize>,
    /// Active latents of what enters.
    pub x: Arc<Pattern>,
    /// Active latents of what leaves.
    pub y: Arc<Pattern>,
}

impl Blocks {
    /// The root mean square of each token's block, at each of its entries: `[Σ_t k_y k_x]`; differentiable in `entries`.
    pub(super) fn rms_of_token(&self, smallest: f64) -> Tensor<1> {
        let (entries, device) = (self.entries.clone(), self.entries.device());
        let starts = self.starts.iter().map(|&start| start as u32).collect();
        let all = Arc::new(Pattern::new(starts, vec![0; entries.dims()[0]], 1));
        let sums = sparse_decode(entries.clone() * entries, Tensor::ones([1, 1], &device), &all);
        let sizes: Vec<f32> = self.starts.windows(2).map(|ends| (ends[1] - ends[0]).max(1) as f32).collect();
        let means = sums / Tensor::<1>::from_floats(sizes.as_slice(), &device).unsqueeze_dim::<2>(1);
        over_blocks((means + smallest).sqrt(), &self.starts)
    }
}

/// A number a token, repeated over its block.
pub(crate) fn over_blocks(of_tokens: Tensor<2>, starts: &[usize]) -> Tensor<1> {
    let at: Vec<i32> = starts.windows(2).enumerate().flat_map(|(row, ends)| std::iter::repeat_n(row as i32, ends[1] - ends[0])).collect();
    let count = at.len();
    let device = of_tokens.device();
    of_tokens.flatten::<1>(0, 1).select(0, Tensor::<1, Int>::from_data(TensorData::new(at, [count]), &device))
}
