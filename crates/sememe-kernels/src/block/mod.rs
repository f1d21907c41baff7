//! The Jacobian of a hidden layer between two sparse codes: for each token the block of its active latents, exact, with all gradients.
//!
//! A hidden layer of h units lies between latents x and latents y. Latent a
//! reaches the units by `A_r[a] [h]`, with R branches r (one, or two in a
//! gated layer); latent b reads them by `B[b] [h]`; the units' slopes at token
//! t are `s_r[t] [h]`. Over the active latents a (of x) and b (of y) of token t
//!
//! `J[t, b, a] = Σ_m B[b, m] · S[t, a, m]`, `S[t, a, m] = Σ_r A_r[a, m] s_r[t, m]`.
//!
//! For an ungated layer `φ(u) W_out` the slope is `φ′(u)`; for a gated one
//! `(φ(g) ⊙ u) W_out` the two are `φ′(g) ⊙ u` (with the gate's branch) and `φ(g)`.
//!
//! Gradients, with `G = ∂L/∂J`: `∂B[b] = Σ_t Σ_a G S`, `∂S = Σ_b G B`,
//! `∂A_r[a] = Σ_t ∂S ⊙ s_r`, `∂s_r[t] = Σ_a ∂S ⊙ A_r`.
//!
//! # How it is computed
//! Each token's rows are gathered, and its block is one small product. The
//! units are cut into panels of [`PANEL`]: forward a panel's part of A and B is
//! used for all tokens while it is in the cache; backward each panel is a task
//! of its own, so that no two tasks write the same number and no sum depends
//! on the number of threads.
//!
//! # Source
//! Farnik et al. 2025, arXiv 2502.18147, §3.3 and appendix A (ungated layers); gated layers are by the product rule.

mod dispatch;
mod loops;
mod plain;
mod tile;

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::Pattern;
use crate::dispatch::is_fused;
use dispatch::BlockOps;

/// Hidden units in a panel.
pub(crate) const PANEL: usize = 256;

/// Where the block of each token begins in the flat list of entries, and where the last ends: `rows + 1` numbers.
///
/// The block of token t has a row a latent of `y` and a column a latent of `x`.
///
/// # Panics
/// When the patterns have different numbers of rows.
pub fn block_starts(x: &Pattern, y: &Pattern) -> Vec<usize> {
    assert_eq!(x.rows(), y.rows(), "the patterns must be of the same tokens");
    let ends = (0..x.rows()).scan(0, |end, row| {
        *end += x.range(row).len() * y.range(row).len();
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// `J[t, b, a]` of the active latents a in `x` and b in `y`, token after token, row after row: `[Σ_t k_y k_x]`.
///
/// `into [n_x, R·h]` holds A, branch after branch in a row; `out [n_y, h]` is B; `slopes [N, R·h]`;
/// differentiable in all three. See the head of this file.
///
/// # Panics
/// When a shape does not fit the patterns.
pub fn jacobian_blocks(into: Tensor<2>, out: Tensor<2>, slopes: Tensor<2>, x: &Arc<Pattern>, y: &Arc<Pattern>) -> Tensor<1> {
    check(&into, &out, &slopes, [x, y]);
    let fused = is_fused(&into) && is_fused(&out) && is_fused(&slopes);
    if !fused || block_starts(x, y).last() == Some(&0) {
        return plain::blocks(into, out, slopes, x, y);
    }
    let entries = Dispatch::block_forward(into.into_dispatch(), out.into_dispatch(), slopes.into_dispatch(), x.clone(), y.clone());
    Tensor::from_dispatch(entries)
}

/// The same by ordinary tensor operations, on any device: the oracle of [`jacobian_blocks`].
///
/// # Panics
/// When a shape does not fit the patterns.
pub fn jacobian_blocks_plain(into: Tensor<2>, out: Tensor<2>, slopes: Tensor<2>, x: &Arc<Pattern>, y: &Arc<Pattern>) -> Tensor<1> {
    check(&into, &out, &slopes, [x, y]);
    plain::blocks(into, out, slopes, x, y)
}

fn check(into: &Tensor<2>, out: &Tensor<2>, slopes: &Tensor<2>, patterns: [&Pattern; 2]) {
    let ([x, y], [_, h], [rows, all]) = (patterns, out.dims(), slopes.dims());
    assert_eq!(x.rows(), y.rows(), "the patterns must be of the same tokens");
    assert_eq!(into.dims(), [x.n(), all], "one row a latent of x, as wide as the slopes");
    assert_eq!(out.dims()[0], y.n(), "one row a latent of y");
    assert_eq!(rows, x.rows(), "one row of slopes a token");
    assert!(h > 0 && all % h == 0, "branches of {h} units");
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    fn ragged(rows: usize, n: usize, most: usize) -> Arc<Pattern> {
        let (mut starts, mut latents) = (vec![0], Vec::new());
        for row in 0..rows {
            let count = (row * 7 + 1) % (most + 1);
            let mut of_row: Vec<u32> = (0..count).map(|e| ((row * 5 + e * 3) % n) as u32).collect();
            of_row.sort_unstable();
            of_row.dedup();
            latents.extend(of_row);
            starts.push(latents.len() as u32);
        }
        Arc::new(Pattern::new(starts, latents, n))
    }

    fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
        Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
    }

    #[test]
    fn by_hand() {
        let device = Device::flex();
        let (x, y) = (Arc::new(Pattern::new(vec![0, 1, 3], vec![1, 0, 1], 2)), Arc::new(Pattern::new(vec![0, 1, 2], vec![0, 0], 1)));
        let into = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 4.0]], &device);
        let out = Tensor::<2>::from_floats([[5.0, 6.0]], &device);
        let slopes = Tensor::<2>::from_floats([[1.0, 0.5], [2.0, 1.0]], &device);
        let blocks = jacobian_blocks(into, out, slopes, &x, &y);
        // Token 0, latent 1: 5·3·1 + 6·4·½; token 1: 5·1·2 + 6·2, 5·3·2 + 6·4.
        assert_eq!(blocks.into_data().iter::<f32>().collect::<Vec<_>>(), [27.0, 22.0, 54.0]);
        assert_eq!(block_starts(&x, &y), [0, 1, 3]);
    }

    /// Values and gradients equal those of ordinary operations: one branch and two, ragged blocks, more units than a panel.
    #[test]
    fn fused_equals_plain() {
        let device = Device::flex().autodiff();
        for (branches, h) in [(1, 5), (2, 40), (1, PANEL + 3), (2, 2 * PANEL + 17)] {
            let (x, y) = (ragged(13, 11, 6), ragged(13, 9, 5));
            let (into, out) = (random([11, branches * h], &device).require_grad(), random([9, h], &device).require_grad());
            let slopes = random([13, branches * h], &device).require_grad();
            let fused = jacobian_blocks(into.clone(), out.clone(), slopes.clone(), &x, &y);
            let plain = jacobian_blocks_plain(into.clone(), out.clone(), slopes.clone(), &x, &y);
            fused.to_data().assert_approx_eq::<f32>(&plain.to_data(), Tolerance::rel_abs(1e-5, 1e-4));
            let upstream = random(fused.dims(), &device);
            let [fused, plain] = [fused, plain].map(|blocks| (blocks * upstream.clone()).sum().backward());
            for tensor in [&into, &out, &slopes] {
                let [a, b] = [&fused, &plain].map(|gradients| tensor.grad(gradients).expect("a gradient").into_data());
                a.assert_approx_eq::<f32>(&b, Tolerance::rel_abs(1e-4, 1e-3));
            }
        }
    }

    /// Tokens of which nothing is active have no entries and give no gradient.
    #[test]
    fn nothing_active() {
        let device = Device::flex().autodiff();
        let (x, y) = (Arc::new(Pattern::new(vec![0, 0], vec![], 2)), Arc::new(Pattern::new(vec![0, 1], vec![0], 2)));
        let blocks = jacobian_blocks(random([2, 3], &device), random([2, 3], &device), random([1, 3], &device), &x, &y);
        assert_eq!(blocks.dims(), [0]);
    }
}
