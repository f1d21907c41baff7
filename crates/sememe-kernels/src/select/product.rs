//! The encoder's product, a block of rows and latents at a time.

#![allow(unsafe_code)]

use rayon::prelude::*;

use super::bf16;

/// `x Wᵀ`, `x [N, d]`, `W [n, d]`, and the bias `[n]` that the scan adds.
pub(super) struct Product<'a> {
    /// Operands are rounded to bfloat16.
    pub(super) bf16: bool,
    pub(super) x: &'a [f32],
    pub(super) weight: &'a [f32],
    pub(super) bias: &'a [f32],
    /// d.
    pub(super) width: usize,
}

/// A block of the product: `[rows, latents]`.
pub(super) struct Block<'a> {
    pub(super) first_row: usize,
    pub(super) first_latent: usize,
    /// Its latents, and the stride of `values`.
    pub(super) latents: usize,
    pub(super) values: &'a [f32],
}

/// Numbers in a block: large enough for the product to run at full speed, small enough to be scanned from the cache.
const BLOCK: usize = 1 << 21;
/// Rows in a block at most.
const ROWS: usize = 4096;

impl Product<'_> {
    /// N.
    pub(super) fn rows(&self) -> usize {
        self.x.len() / self.width.max(1)
    }

    /// n.
    pub(super) fn n(&self) -> usize {
        self.bias.len()
    }

    /// Hands every block to `visit`: for a block of rows, the latents in rising order.
    pub(super) fn blocks(&self, mut visit: impl FnMut(&Block<'_>)) {
        let (rows, n) = (self.rows(), self.n());
        let most_rows = ROWS.min(rows.max(1));
        let most_latents = (BLOCK / most_rows).next_multiple_of(64).min(n.max(1));
        let mut values = vec![0.0_f32; most_rows * most_latents];
        let x_packed = if self.bf16 { bf16::pack(self.x, self.width, bf16::ROWS) } else { Vec::new() };
        for first_row in (0..rows).step_by(most_rows) {
            let some_rows = most_rows.min(rows - first_row);
            for first_latent in (0..n).step_by(most_latents) {
                let latents = most_latents.min(n - first_latent);
                let values = &mut values[..some_rows * latents];
                let x = &self.x[first_row * self.width..(first_row + some_rows) * self.width];
                let weight = &self.weight[first_latent * self.width..(first_latent + latents) * self.width];
                if self.bf16 {
                    // Rows come in blocks of a multiple of a panel.
                    let panels = &x_packed[first_row * self.width.div_ceil(2)..];
                    product_bf16(panels, weight, self.width, latents, values);
                } else {
                    product(x, weight, self.width, values);
                }
                visit(&Block { first_row, first_latent, latents, values });
            }
        }
    }
}

/// `out = x Wᵀ` with operands in bfloat16, of packed rows of x.
fn product_bf16(x: &[u32], weight: &[f32], width: usize, latents: usize, out: &mut [f32]) {
    let pairs = width.div_ceil(2);
    let weight = bf16::pack(weight, width, bf16::LATENTS);
    out.par_chunks_mut(bf16::ROWS * latents).zip(x.par_chunks(bf16::ROWS * pairs)).for_each(|(out, x)| {
        bf16::rows_times_latents(x, &weight, pairs, out.len() / latents, latents, out);
    });
}

/// `out = x Wᵀ`: `[rows, d] · [latents, d]ᵀ → [rows, latents]`.
fn product(x: &[f32], weight: &[f32], width: usize, out: &mut [f32]) {
    let (rows, latents) = (x.len() / width, weight.len() / width);
    assert!(x.len() == rows * width && weight.len() == latents * width && out.len() == rows * latents);
    let parallelism = if rows * latents * width < 1 << 22 { gemm::Parallelism::None } else { gemm::Parallelism::Rayon(0) };
    // SAFETY: the strides describe exactly the three slices, whose lengths were just checked; `out` is exclusive.
    unsafe {
        gemm::gemm(
            rows,
            latents,
            width,
            out.as_mut_ptr(),
            1,
            latents as isize,
            false,
            x.as_ptr(),
            1,
            width as isize,
            weight.as_ptr(),
            width as isize,
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}
