//! The search of a row of pre-activations for entries above a threshold.
//!
//! An entry is kept as a key: the bits of its (positive) value above the
//! complement of its index, so that larger keys are larger values and, among
//! equal values, lower indices.

use crate::lanes::wide;

/// Entries that are tested together.
const GROUP: usize = 16;
/// Keys that are gathered before they are appended.
const BUFFER: usize = 64;

/// The key of `value` at `index`; NaN of either sign is above infinity.
#[inline(always)]
fn key(value: f32, index: u32) -> u64 {
    u64::from(value.to_bits() & 0x7fff_ffff) << 32 | u64::from(!index)
}

/// As [`key`] with the sign kept: in no order, for choices that compare no two entries.
#[inline(always)]
fn signed_key(value: f32, index: u32) -> u64 {
    u64::from(value.to_bits()) << 32 | u64::from(!index)
}

/// The value of a key.
pub(super) fn value(key: u64) -> f32 {
    f32::from_bits((key >> 32) as u32)
}

/// The index of a key.
pub(super) fn index(key: u64) -> u32 {
    !(key as u32)
}

/// Appends the keys of `products + bias` above the threshold of their place; the entries count from `first`.
#[inline(always)]
fn append_above(
    products: &[f32],
    bias: &[f32],
    threshold: impl Fn(usize) -> f32,
    key: impl Fn(f32, u32) -> u64,
    first: u32,
    keys: &mut Vec<u64>,
) {
    // Written such that NaN passes.
    #[allow(clippy::neg_cmp_op_on_partial_ord)]
    let passes = |value: f32, at: usize| !(value <= threshold(at));
    // A buffer of its own, so that the vector is not grown entry by entry; an entry that does not pass is overwritten.
    let (mut found, mut count) = ([0_u64; BUFFER + GROUP], 0);
    for ((group, products), bias) in products.chunks(GROUP).enumerate().zip(bias.chunks(GROUP)) {
        let before = group * GROUP;
        let mut any = false;
        if let (Ok(products), Ok(bias)) = (<&[f32; GROUP]>::try_from(products), <&[f32; GROUP]>::try_from(bias)) {
            for i in 0..GROUP {
                any |= passes(products[i] + bias[i], before + i);
            }
        } else {
            any = true;
        }
        if any {
            for (i, (product, bias)) in products.iter().zip(bias).enumerate() {
                let value = product + bias;
                found[count] = key(value, first + (before + i) as u32);
                count += usize::from(passes(value, before + i));
            }
            if count >= BUFFER {
                keys.extend_from_slice(&found[..count]);
                count = 0;
            }
        }
    }
    keys.extend_from_slice(&found[..count]);
}

wide! {
    /// Appends the keys of `products + bias` above `threshold`, which is not below 0; the entries count from `first`.
    fn above(products: &[f32], bias: &[f32], threshold: f32, first: u32, keys: &mut Vec<u64>) {
        append_above(products, bias, |_| threshold, key, first, keys)
    }
}

wide! {
    /// As [`above`], each entry against a threshold of its own, of either sign; the keys are [`signed_key`]s.
    fn above_each(products: &[f32], bias: &[f32], thresholds: &[f32], first: u32, keys: &mut Vec<u64>) {
        let thresholds = &thresholds[..products.len()];
        append_above(products, bias, |at| thresholds[at], signed_key, first, keys)
    }
}

/// Bins of [`count`].
pub(super) const BINS: usize = 1 << 12;
const SHIFT: u32 = 31 - 12;

/// The bin of a key: rising with its value.
#[inline(always)]
pub(super) fn bin(key: u64) -> usize {
    ((key >> 32) as u32 >> SHIFT) as usize
}

/// The largest number below the bin.
pub(super) fn below_bin(bin: usize) -> f32 {
    if bin == 0 { 0.0 } else { f32::from_bits(((bin as u32) << SHIFT) - 1) }
}

wide! {
    /// Counts the entries above 0 by bin.
    fn count(products: &[f32], bias: &[f32], counts: &mut [u32]) {
        for (product, bias) in products.iter().zip(bias) {
            let value = product + bias;
            #[allow(clippy::neg_cmp_op_on_partial_ord)]
            if !(value <= 0.0) {
                counts[((value.to_bits() & 0x7fff_ffff) >> SHIFT) as usize] += 1;
            }
        }
    }
}
