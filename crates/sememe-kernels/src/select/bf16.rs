//! The encoder's product with operands rounded to bfloat16 and sums in single precision, by the AVX512-BF16 instructions.
//!
//! `vdpbf16ps` multiplies 32 pairs and adds them, two at a time, into 16 sums.
//! Operands are packed so that it reads them in order: x in panels of
//! [`ROWS`] rows, W in panels of [`LATENTS`] latents, two neighbouring
//! dimensions side by side, zeros where a panel is not full.
//!
//! A choice of active latents by this product can differ from the exact one
//! only among nearly equal pre-activations (relative error about 2⁻⁸/√d of
//! ‖x‖‖W_i‖); values of the chosen are computed in single precision afterwards.

#![allow(unsafe_code)]

/// Rows of x in a panel.
pub(super) const ROWS: usize = 8;
/// Latents in a panel: three registers of sums a row.
pub(super) const LATENTS: usize = 48;

/// Whether the processor has the instructions.
pub(super) fn is_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx512bf16")
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// The nearest bfloat16, ties to even; NaN stays NaN.
#[inline(always)]
fn rounded(value: f32) -> u32 {
    let bits = value.to_bits();
    if value.is_nan() { bits >> 16 | 0x40 } else { (bits + 0x7fff + (bits >> 16 & 1)) >> 16 }
}

/// Matrix rows `[count, width]` in panels of `panel` rows: `[count/panel, width/2, panel]` pairs.
pub(super) fn pack(rows: &[f32], width: usize, panel: usize) -> Vec<u32> {
    use rayon::prelude::*;
    let (count, pairs) = (rows.len() / width, width.div_ceil(2));
    let mut packed = vec![0_u32; count.div_ceil(panel) * pairs * panel];
    packed.par_chunks_mut(pairs * panel).zip(rows.par_chunks(panel * width)).for_each(|(packed, rows)| {
        for (r, row) in rows.chunks(width).enumerate() {
            for (pair, values) in row.chunks(2).enumerate() {
                let second = values.get(1).map_or(0, |&value| rounded(value));
                packed[pair * panel + r] = rounded(values[0]) | second << 16;
            }
        }
    });
    packed
}

/// `out[r, i] = Σ_p x_p[r] · w_p[i]` of one panel of rows with the panels of `latents` latents; `out` has `stride` numbers a row.
pub(super) fn rows_times_latents(x: &[u32], weight: &[u32], pairs: usize, rows: usize, latents: usize, out: &mut [f32]) {
    assert!(is_available() && x.len() == pairs * ROWS && rows <= ROWS && out.len() == rows * latents);
    assert!(weight.len() == latents.div_ceil(LATENTS) * pairs * LATENTS);
    #[cfg(target_arch = "x86_64")]
    for (panel, weight) in weight.chunks_exact(pairs * LATENTS).enumerate() {
        let mut sums = [[0.0_f32; LATENTS]; ROWS];
        // SAFETY: the instructions are there, and the panels have the lengths that the function reads, as just checked.
        unsafe { panel_product(x, weight, pairs, &mut sums) };
        let first = panel * LATENTS;
        let some = LATENTS.min(latents - first);
        for (out, sums) in out.chunks_exact_mut(latents).zip(&sums) {
            out[first..first + some].copy_from_slice(&sums[..some]);
        }
    }
}

/// # Safety
/// The processor has AVX512F, AVX512BW and AVX512-BF16; `x` holds `pairs · ROWS` and `weight` `pairs · LATENTS` pairs.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn panel_product(x: &[u32], weight: &[u32], pairs: usize, sums: &mut [[f32; LATENTS]; ROWS]) {
    use std::arch::x86_64::*;
    // SAFETY: every pointer stays within its panel, by the lengths that the caller vouches for; a register of pairs and
    // one of bfloat16 have the same bits.
    unsafe {
        let mut total = [[_mm512_setzero_ps(); 3]; ROWS];
        let (mut x, mut weight) = (x.as_ptr(), weight.as_ptr());
        for _ in 0..pairs {
            let w: [__m512bh; 3] = [
                std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(weight.cast())),
                std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(weight.add(16).cast())),
                std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(weight.add(32).cast())),
            ];
            for (r, total) in total.iter_mut().enumerate() {
                let pair = std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32((*x.add(r)).cast_signed()));
                for (total, w) in total.iter_mut().zip(w) {
                    *total = _mm512_dpbf16_ps(*total, pair, w);
                }
            }
            x = x.add(ROWS);
            weight = weight.add(LATENTS);
        }
        for (sums, total) in sums.iter_mut().zip(total) {
            for (i, total) in total.into_iter().enumerate() {
                _mm512_storeu_ps(sums.as_mut_ptr().add(16 * i), total);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product of rounded operands, at sizes that fill panels and that do not.
    #[test]
    fn product_of_rounded_operands() {
        if !is_available() {
            return;
        }
        let number = |at: usize| ((at * 2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
        let round = |value: f32| f32::from_bits(rounded(value) << 16);
        for (rows, latents, width) in [(8, 48, 32), (3, 50, 7), (1, 1, 1)] {
            let x: Vec<f32> = (0..rows * width).map(number).collect();
            let weight: Vec<f32> = (0..latents * width).map(|at| number(at + 17)).collect();
            let mut out = vec![0.0; rows * latents];
            rows_times_latents(&pack(&x, width, ROWS), &pack(&weight, width, LATENTS), width.div_ceil(2), rows, latents, &mut out);
            for r in 0..rows {
                for i in 0..latents {
                    let expected: f64 =
                        (0..width).map(|p| f64::from(round(x[r * width + p])) * f64::from(round(weight[i * width + p]))).sum();
                    let got = f64::from(out[r * latents + i]);
                    assert!((got - expected).abs() < 1e-4, "{rows} {latents} {width}: {got} against {expected}");
                }
            }
        }
    }

    #[test]
    fn rounding_to_even() {
        for (value, expected) in [(1.0, 0x3f80), (1.003_906_3, 0x3f80), (1.011_718_8, 0x3f82), (f32::INFINITY, 0x7f80), (-2.0, 0xc000)] {
            assert_eq!(rounded(value), expected, "{value}");
        }
        assert!(f32::from_bits(rounded(f32::NAN) << 16).is_nan());
    }
}
