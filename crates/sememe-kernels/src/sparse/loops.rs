//! The loops of the sparse products on slices: sums of a few rows of a matrix, and dot products with a few rows.
//!
//! Both directions of both weight gradients are [`combine`] and [`dots`]: the
//! gradient of a dictionary row is a sum of batch rows, over the transposed
//! pattern, so each row is written by one task and no sum depends on the
//! number of threads.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use super::Pattern;
use crate::lanes::wide;

wide! {
    /// `out += Σ_e factors_e · matrix[at_e]`, rows of the length of `out`.
    fn combine(factors: &[f32], at: &[u32], matrix: &[f32], out: &mut [f32]) {
        let width = out.len();
        let row = |e: usize| &matrix[at[e] as usize * width..][..width];
        let mut e = 0;
        while e + 4 <= at.len() {
            let (a, b, c, d) = (row(e), row(e + 1), row(e + 2), row(e + 3));
            let (fa, fb, fc, fd) = (factors[e], factors[e + 1], factors[e + 2], factors[e + 3]);
            for i in 0..width {
                out[i] += (fa * a[i] + fb * b[i]) + (fc * c[i] + fd * d[i]);
            }
            e += 4;
        }
        while e < at.len() {
            let (a, fa) = (row(e), factors[e]);
            for i in 0..width {
                out[i] += fa * a[i];
            }
            e += 1;
        }
    }
}

/// Partial sums of a dot product, so that it vectorises without reordering by the compiler.
const LANES: usize = 32;

wide! {
    /// `out_e = vector · matrix[at_e]`.
    fn dots(vector: &[f32], at: &[u32], matrix: &[f32], out: &mut [f32]) {
        let width = vector.len();
        for (out, &at) in out.iter_mut().zip(at) {
            let row = &matrix[at as usize * width..][..width];
            if width < LANES {
                *out = vector.iter().zip(row).map(|(a, b)| a * b).sum();
                continue;
            }
            let mut sums = [0.0_f32; LANES];
            let (whole, rest) = (width / LANES * LANES, width % LANES);
            for (a, b) in vector.as_chunks::<LANES>().0.iter().zip(row.as_chunks::<LANES>().0) {
                for i in 0..LANES {
                    sums[i] += a[i] * b[i];
                }
            }
            let mut total = 0.0;
            for i in 0..rest {
                total += vector[whole + i] * row[whole + i];
            }
            let mut span = LANES / 2;
            while span > 0 {
                for i in 0..span {
                    sums[i] += sums[i + span];
                }
                span /= 2;
            }
            *out = total + sums[0];
        }
    }
}

/// `[rows · width]` numbers, row t being written in full by `fill(t, row)`, in parallel.
///
/// Rows are cleared one by one, while they are in the cache; clearing the whole beforehand would cost a pass over memory.
#[allow(unsafe_code)]
fn rows_by(rows: usize, width: usize, least: usize, fill: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let mut out: Vec<f32> = Vec::with_capacity(rows * width);
    if width > 0 {
        out.spare_capacity_mut()[..rows * width].par_chunks_mut(width).with_min_len(least).enumerate().for_each(|(row, out)| {
            out.fill(MaybeUninit::new(0.0));
            // SAFETY: every element was just written.
            fill(row, unsafe { out.assume_init_mut() });
        });
        // SAFETY: the chunks cover all `rows · width` elements, and each was written.
        unsafe { out.set_len(rows * width) };
    }
    out
}

/// `out[t] = Σ_e values_e · dictionary[latent_e]` over the entries of row t: `[rows, d]`.
pub(crate) fn decode(values: &[f32], dictionary: &[f32], width: usize, pattern: &Pattern) -> Vec<f32> {
    rows_by(pattern.rows(), width, 8, |row, out| combine(&values[pattern.range(row)], pattern.row(row), dictionary, out))
}

/// `out_e = rows[t] · dictionary[latent_e]` for the entries of every row t: `[entries]`.
pub(crate) fn dot(rows: &[f32], dictionary: &[f32], pattern: &Pattern, out: &mut [f32]) {
    let width = rows.len() / pattern.rows().max(1);
    pattern.par_rows_mut(out).with_min_len(8).for_each(|(row, out)| {
        dots(&rows[row * width..(row + 1) * width], pattern.row(row), dictionary, out);
    });
}

/// `out[i] = Σ_e values_e · rows[t_e]` over the entries of latent i: `[n, d]`.
pub(crate) fn outer(values: &[f32], rows: &[f32], width: usize, pattern: &Pattern) -> Vec<f32> {
    let by = pattern.by_latent();
    rows_by(pattern.n(), width, 32, |latent, out| {
        let range = by.starts[latent] as usize..by.starts[latent + 1] as usize;
        if !range.is_empty() {
            let factors: Vec<f32> = by.entries[range.clone()].iter().map(|&entry| values[entry as usize]).collect();
            combine(&factors, &by.rows[range], rows, out);
        }
    })
}

/// Rows that one task of [`combination`] sums.
const ROWS: usize = 512;

/// `out = Σ_i factors_i · matrix[i]` over all rows: partial sums of blocks of rows, added in their order.
pub(crate) fn combination(factors: &[f32], matrix: &[f32], out: &mut [f32]) {
    let width = out.len();
    let parts: Vec<Vec<f32>> = factors
        .par_chunks(ROWS)
        .zip(matrix.par_chunks(ROWS * width.max(1)))
        .map(|(factors, matrix)| {
            let all: Vec<u32> = (0..factors.len() as u32).collect();
            let mut part = vec![0.0; width];
            combine(factors, &all, matrix, &mut part);
            part
        })
        .collect();
    for part in parts {
        out.iter_mut().zip(part).for_each(|(out, part)| *out += part);
    }
}

/// `out_e = vector[latent_e]`: `[entries]`.
pub(crate) fn spread(vector: &[f32], pattern: &Pattern, out: &mut [f32]) {
    out.par_chunks_mut(SPREAD).zip(pattern.latents().par_chunks(SPREAD)).for_each(|(out, latents)| {
        out.iter_mut().zip(latents).for_each(|(out, &latent)| *out = vector[latent as usize]);
    });
}

/// Entries a task of [`spread`].
const SPREAD: usize = 1 << 14;

/// `out[i] = Σ_e values_e` over the entries of latent i: `[n]`.
pub(crate) fn sum(values: &[f32], pattern: &Pattern, out: &mut [f32]) {
    let by = pattern.by_latent();
    for (latent, out) in out.iter_mut().enumerate() {
        *out = by.entries[by.starts[latent] as usize..by.starts[latent + 1] as usize].iter().map(|&entry| values[entry as usize]).sum();
    }
}
