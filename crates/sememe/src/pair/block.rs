//! The exact Jacobian between the latents of a pair, token by token, in closed form.
//!
//! With decoder rows `D_a` of the first dictionary, encoder rows `E_b` of the
//! second, v the activation that enters and `s_r [h]` the slopes at a token
//! (`layer.rs`), a layer without norms has
//!
//! `J[b, a] = (scale_out/scale_in) Σ_m B[b, m] Σ_r s_r[m] A_r[a, m]`, `A = D W_into`, `B = E W_outᵀ`.
//!
//! A norm before it, `n = γ ⊙ v̂ + β` with `v̂ = (v − μ)/r`, sends a direction to
//! `γ ⊙ (D̄_a − v̂ (v̂·D_a)/d)/r`, D̄ being D without its mean (D itself in an RMS
//! norm). So with `A = (γ ⊙ D̄) W_into`, `g_r = (γ ⊙ v̂) W_into` and `c_a = v̂·D_a/d`
//!
//! `J[b, a] = (Σ_m B[b,m] Σ_r s_r A_r[a,m] − q_b c_a)/r`, `q_b = B[b] · w`, `w = Σ_r s_r ⊙ g_r`.
//!
//! A norm after it, with `m̂ = (m − μ′)/r′`, turns the reader `E_b` into
//! `E′_b = γ′ ⊙ E_b` (less its mean), with a correction of rank one: with `t_a = m̂ · ∂m/∂z_a`
//!
//! `J[b, a] = (J′[b, a] − (E′_b·m̂) t_a/d′)/r′`, J′ being J with E′ for E.
//!
//! The residual path adds `E_b · D_a`.
//!
//! Only rows of latents that some token uses are formed (`cost.rs`).
//!
//! # Source
//! Farnik et al. 2025, arXiv 2502.18147, §3.3; norms and residual path by the chain rule.

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData};
use sememe_kernels::{Pattern, block_starts, jacobian_blocks, sparse_encode};

use super::cost::{Route, Shape};
use super::layer::{Layer, lifted};
use crate::block::{Blocks, over_blocks};

/// Rows of a matrix that some token uses, and the pattern over them.
struct Used {
    rows: Tensor<2>,
    pattern: Arc<Pattern>,
}

fn used(matrix: Tensor<2>, pattern: &Arc<Pattern>, hidden: usize) -> Used {
    let [latents, width] = matrix.dims();
    let (compact, kept) = pattern.compact();
    match Route::choose(&Shape { latents, active: kept.len(), entries: pattern.entries(), width, hidden }) {
        Route::Whole => Used { rows: matrix, pattern: pattern.clone() },
        Route::Active | Route::PerToken => {
            let at: Vec<i32> = kept.iter().map(|&latent| latent as i32).collect();
            let at: Tensor<1, Int> = Tensor::from_data(TensorData::new(at, [kept.len()]), &matrix.device());
            Used { rows: matrix.select(0, at), pattern: Arc::new(compact) }
        }
    }
}

/// `rows[t] · matrix[i]` at the entries of the pattern: `[entries]`.
fn dots(rows: Tensor<2>, matrix: Tensor<2>, pattern: &Arc<Pattern>) -> Tensor<1> {
    let ([n, width], device) = (matrix.dims(), matrix.device());
    sparse_encode(rows, Tensor::zeros([width], &device), matrix, Tensor::zeros([n], &device), pattern, None)
}

/// `left[t, b] · right[t, a]` over the blocks; `left` stands at the entries of y, `right` at those of x.
fn outer(left: Tensor<1>, right: Tensor<1>, x: &Pattern, y: &Pattern) -> Tensor<1> {
    let entries: usize = (0..x.rows()).map(|row| x.range(row).len() * y.range(row).len()).sum();
    let (mut rows, mut columns) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
    for row in 0..x.rows() {
        for b in y.range(row) {
            rows.extend(std::iter::repeat_n(b as i32, x.range(row).len()));
            columns.extend(x.range(row).map(|a| a as i32));
        }
    }
    let index = |at: Vec<i32>| Tensor::<1, Int>::from_data(TensorData::new(at, [entries]), &left.device());
    let (rows, columns) = (index(rows), index(columns));
    left.select(0, rows) * right.select(0, columns)
}

/// J of the layer at `x̂ [N, d]` between decoder rows `D [n_x, d]` and encoder rows `E [n_y, d_y]`.
///
/// Differentiable in all three. `x̂`, D and E are in the dictionaries' units.
///
/// # Panics
/// When shapes do not fit the layer or the patterns.
#[allow(non_snake_case)] // The letters of the formulas above.
pub fn blocks(
    layer: &Layer,
    reconstructed: Tensor<2>,
    decoder: Tensor<2>,
    encoder: Tensor<2>,
    x: &Arc<Pattern>,
    y: &Arc<Pattern>,
) -> Blocks {
    let starts = block_starts(x, y);
    let finish = |entries| Blocks { entries, starts: starts.clone(), x: x.clone(), y: y.clone() };
    if starts.last() == Some(&0) {
        return finish(Tensor::zeros([0], &decoder.device()));
    }
    let (h, branches) = (layer.units(), if layer.is_gated { 2 } else { 1 });
    let D = used(decoder, x, branches * h);
    let E = used(encoder, y, h);
    let passage = layer.enter(reconstructed);
    let mut slopes = layer.slopes(&passage.pre);
    let into = lifted(&layer.into, &slopes);
    // 1/r belongs to the slopes, g and w to the correction.
    let mut correction = None;
    let directions = match (&layer.norm_before, &passage.before) {
        (Some(norm), Some(normed)) => {
            let width = D.rows.dims()[1] as f64;
            slopes = slopes * normed.inverse.clone();
            let g = norm.directions(normed.unit.clone()).matmul(into.clone());
            let w = branch_sum(slopes.clone() * g, h);
            correction = Some((w, dots(normed.unit.clone() / width, D.rows.clone(), &D.pattern)));
            norm.directions(D.rows.clone())
        }
        _ => D.rows.clone(),
    };
    let A = directions.matmul(into);
    let out = lifted(&layer.out, &slopes);
    let readers = match &layer.norm_after {
        Some(norm) => norm.readers(E.rows.clone()),
        None => E.rows.clone(),
    };
    let B = readers.clone().matmul(out.clone().transpose());
    let mut J = jacobian_blocks(A.clone(), B.clone(), slopes.clone(), &D.pattern, &E.pattern);
    if let Some((w, c)) = &correction {
        J = J - outer(dots(w.clone(), B, &E.pattern), c.clone(), &D.pattern, &E.pattern);
    }
    if let Some(norm) = &layer.norm_after {
        let normed = norm.normed(&layer.leave(layer.hidden(&passage.pre)));
        let width = readers.dims()[1] as f64;
        // m̂ Wᵀ reads the units as E′ does, with one reader a token.
        let reader = normed.unit.clone().matmul(out.transpose());
        let per_branch = Tensor::cat(vec![reader.clone(); branches], 1);
        let mut t = dots(slopes * per_branch, A, &D.pattern);
        if let Some((w, c)) = correction {
            t = t - c * over_entries((w * reader).sum_dim(1), &D.pattern);
        }
        let along = dots(normed.unit, readers, &E.pattern) / width;
        J = (J - outer(along, t, &D.pattern, &E.pattern)) * over_blocks(normed.inverse, &starts);
    }
    if layer.is_residual {
        let ones = Tensor::ones([x.rows(), D.rows.dims()[1]], &D.rows.device());
        J = J + jacobian_blocks(D.rows, E.rows, ones, &D.pattern, &E.pattern);
    }
    let scale = layer.scale_out / layer.scale_in;
    finish(if scale == 1.0 { J } else { J * scale })
}

/// The sum over branches: `[N, R·h] → [N, h]`.
fn branch_sum(values: Tensor<2>, h: usize) -> Tensor<2> {
    let [rows, all] = values.dims();
    if all == h { values } else { values.reshape([rows, all / h, h]).sum_dim(1).reshape([rows, h]) }
}

/// A number a token, at each of its entries.
fn over_entries(of_tokens: Tensor<2>, pattern: &Pattern) -> Tensor<1> {
    let at: Vec<i32> = pattern.row_of_entries().into_iter().map(|row| row as i32).collect();
    let count = at.len();
    let device = of_tokens.device();
    of_tokens.flatten::<1>(0, 1).select(0, Tensor::<1, Int>::from_data(TensorData::new(at, [count]), &device))
}
