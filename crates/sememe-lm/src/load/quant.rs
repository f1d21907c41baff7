//! The block formats of GGUF, turned into single precision.
//!
//! A block holds 32 (or, in the K formats, 256) numbers as small integers q
//! with a scale d, and where the format's name ends in 1 or K a minimum m:
//!
//! | format | block | number |
//! |---|---|---|
//! | Q4_0, Q5_0, Q8_0 | 32 | `d (q − 8)`, `d (q − 16)`, `d q` |
//! | Q4_1, Q5_1 | 32 | `d q + m` |
//! | Q4_K, Q5_K | 256 in 8 runs | `d s_r q − m t_r`, 6-bit s and t a run |
//! | Q6_K | 256 in 16 runs | `d s_r (q − 32)`, 8-bit s a run |
//!
//! # Source
//! ggml, `ggml-quants.c`, functions `dequantize_row_*`.

use half::{bf16, f16};
use rayon::prelude::*;

/// A way in which GGUF stores numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

/// What [`Format::from_code`] accepts, for messages.
pub(super) const READABLE: &str = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K";

impl Format {
    /// By ggml's number.
    pub fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::Bf16,
            _ => return None,
        })
    }

    /// Numbers and bytes of a block.
    pub fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        }
    }

    /// The numbers in `bytes`, which must be whole blocks.
    pub fn values(self, bytes: &[u8]) -> Vec<f32> {
        let (numbers, size) = self.block();
        let mut output = vec![0.0; bytes.len() / size * numbers];
        let blocks = 4096 / numbers;
        output
            .par_chunks_mut(blocks * numbers)
            .zip(bytes.par_chunks(blocks * size))
            .for_each(|(output, bytes)| output.chunks_mut(numbers).zip(bytes.chunks(size)).for_each(|(y, x)| self.one(x, y)));
        output
    }

    fn one(self, x: &[u8], y: &mut [f32]) {
        match self {
            Self::F32 => y[0] = f32::from_le_bytes([x[0], x[1], x[2], x[3]]),
            Self::F16 => y[0] = half_at(x, 0),
            Self::Bf16 => y[0] = bf16::from_le_bytes([x[0], x[1]]).to_f32(),
            Self::Q4_0 => nibbles(&x[2..18], y, |q| half_at(x, 0) * (f32::from(q) - 8.0)),
            Self::Q4_1 => nibbles(&x[4..20], y, |q| half_at(x, 0) * f32::from(q) + half_at(x, 2)),
            Self::Q5_0 => {
                let d = half_at(x, 0);
                fives(&x[2..6], &x[6..22], y, |q| d * (f32::from(q) - 16.0));
            }
            Self::Q5_1 => {
                let (d, m) = (half_at(x, 0), half_at(x, 2));
                fives(&x[4..8], &x[8..24], y, |q| d * f32::from(q) + m);
            }
            Self::Q8_0 => {
                let d = half_at(x, 0);
                y.iter_mut().zip(&x[2..34]).for_each(|(y, &q)| *y = d * f32::from(q as i8));
            }
            Self::Q4K => with_minima(x, y, &x[16..], |_, nibble| nibble),
            Self::Q5K => with_minima(x, y, &x[48..], |(run, i), nibble| nibble + 16 * (x[16 + i] >> run & 1)),
            Self::Q6K => sixes(x, y),
        }
    }
}

fn half_at(x: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([x[at], x[at + 1]]).to_f32()
}

/// Low halves of the bytes are the first half of the block, high halves the second.
fn nibbles(packed: &[u8], y: &mut [f32], number: impl Fn(u8) -> f32) {
    let (low, high) = y.split_at_mut(16);
    for ((low, high), &byte) in low.iter_mut().zip(high).zip(packed) {
        (*low, *high) = (number(byte & 15), number(byte >> 4));
    }
}

/// As [`nibbles`], with a fifth bit for number i in bit i of `fifth`.
fn fives(fifth: &[u8], packed: &[u8], y: &mut [f32], number: impl Fn(u8) -> f32) {
    let fifth = u32::from_le_bytes([fifth[0], fifth[1], fifth[2], fifth[3]]);
    let bit = |i: usize| ((fifth >> i & 1) as u8) << 4;
    for (i, &byte) in packed.iter().enumerate() {
        y[i] = number(byte & 15 | bit(i));
        y[i + 16] = number(byte >> 4 | bit(i + 16));
    }
}

/// Q4_K and Q5_K: runs 2p and 2p + 1 are the low and the high halves of bytes `32 p..`; `whole` adds what lies elsewhere.
fn with_minima(x: &[u8], y: &mut [f32], packed: &[u8], whole: impl Fn((usize, usize), u8) -> u8) {
    let (d, m) = (half_at(x, 0), half_at(x, 2));
    let packed_scales = &x[4..16];
    for (run, y) in y.chunks_exact_mut(32).enumerate() {
        let (scale, minimum) = six_bits(packed_scales, run);
        let (scale, minimum) = (d * f32::from(scale), m * f32::from(minimum));
        for (i, y) in y.iter_mut().enumerate() {
            let byte = packed[run / 2 * 32 + i];
            let nibble = if run % 2 == 0 { byte & 15 } else { byte >> 4 };
            *y = scale * f32::from(whole((run, i), nibble)) - minimum;
        }
    }
}

/// Scale and minimum of a run: six bits each, the last four runs' upper two bits in the bytes of the first four.
fn six_bits(packed: &[u8], run: usize) -> (u8, u8) {
    if run < 4 {
        (packed[run] & 63, packed[run + 4] & 63)
    } else {
        (packed[run + 4] & 15 | packed[run - 4] >> 6 << 4, packed[run + 4] >> 4 | packed[run] >> 6 << 4)
    }
}

/// Q6_K: 128 low halves, 64 bytes of upper pairs of bits, 16 scales, d.
fn sixes(x: &[u8], y: &mut [f32]) {
    let (low, high, scales, d) = (&x[..128], &x[128..192], &x[192..208], half_at(x, 208));
    for (i, y) in y.iter_mut().enumerate() {
        // Each half of the block: four runs of 32, of which the first two share bytes with the last two.
        let (part, quarter, l) = (i / 128, i % 128 / 32, i % 32);
        let byte = low[part * 64 + quarter % 2 * 32 + l];
        let nibble = if quarter < 2 { byte & 15 } else { byte >> 4 };
        let pair = high[part * 32 + l] >> (2 * quarter) & 3;
        let q = i16::from(nibble | pair << 4) - 32;
        *y = d * f32::from(scales[i / 16] as i8) * f32::from(q);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks by PyPI `gguf`, with what it makes of them (see `scripts/lm_fixtures.py`).
    #[test]
    fn equals_the_reference() {
        let json = include_str!("../../tests/fixtures/quant.json");
        let cases: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
        let cases = cases.as_object().cloned().unwrap_or_default();
        assert_eq!(cases.len(), 11);
        for (name, case) in cases {
            let bytes: Vec<u8> =
                case["bytes"].as_array().into_iter().flatten().map(|byte| byte.as_u64().unwrap_or_default() as u8).collect();
            let expected: Vec<f32> =
                case["values"].as_array().into_iter().flatten().map(|value| value.as_f64().unwrap_or(f64::NAN) as f32).collect();
            let code = case["code"].as_u64().unwrap_or(999) as u32;
            let Some(format) = Format::from_code(code) else { panic!("{name} is not known") };
            let got = format.values(&bytes);
            assert_eq!(got.len(), expected.len(), "{name}");
            for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert!((got - expected).abs() <= 1e-6 * expected.abs().max(1e-3), "{name}, number {at}: {got} against {expected}");
            }
        }
    }
}
