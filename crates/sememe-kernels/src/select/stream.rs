//! The choices of active latents over a stream of blocks: starts of rows, latents, values.

use rayon::prelude::*;

use super::product::Product;
use super::scan;

type Entries = (Vec<u32>, Vec<u32>, Vec<f32>);

/// Keys by row, each row's rising in the latent, as the parts of a pattern.
fn gather(rows: &[Vec<u64>], latent: impl Fn(u32) -> u32) -> Entries {
    let mut starts = Vec::with_capacity(rows.len() + 1);
    starts.push(0);
    let total = rows.iter().map(Vec::len).sum();
    let (mut latents, mut values) = (Vec::with_capacity(total), Vec::with_capacity(total));
    for keys in rows {
        latents.extend(keys.iter().map(|&key| latent(scan::index(key))));
        values.extend(keys.iter().map(|&key| scan::value(key)));
        starts.push(latents.len() as u32);
    }
    (starts, latents, values)
}

/// Keeps the `k` largest keys.
fn keep_largest(keys: &mut Vec<u64>, k: usize) {
    if keys.len() > k {
        if k > 0 {
            keys.select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
        }
        keys.truncate(k);
    }
}

/// Entries of a row that are scanned between two looks at its buffer.
const SEGMENT: usize = 256;

/// The k largest of each row.
///
/// A row's buffer holds at least its k largest entries so far; when it is
/// full, the k largest stay and the smallest of them is the new threshold.
/// An entry equal to the threshold has a higher latent than those kept.
pub(super) fn per_row(product: &Product<'_>, k: usize) -> Entries {
    let full = (2 * k).max(k + 64);
    let mut rows: Vec<(f32, Vec<u64>)> = (0..product.rows()).map(|_| (0.0, Vec::new())).collect();
    product.blocks(|block| {
        let bias = &product.bias[block.first_latent..][..block.latents];
        rows[block.first_row..].par_iter_mut().zip(block.values.par_chunks(block.latents)).with_min_len(16).for_each(
            |((threshold, keys), values)| {
                keys.reserve(full + SEGMENT);
                for ((segment, values), bias) in values.chunks(SEGMENT).enumerate().zip(bias.chunks(SEGMENT)) {
                    scan::above(values, bias, *threshold, (block.first_latent + segment * SEGMENT) as u32, keys);
                    if keys.len() >= full {
                        keep_largest(keys, k);
                        *threshold = keys.last().map_or(f32::INFINITY, |&least| scan::value(least));
                    }
                }
            },
        );
    });
    let rows: Vec<Vec<u64>> = rows
        .into_par_iter()
        .with_min_len(64)
        .map(|(_, mut keys)| {
            keep_largest(&mut keys, k);
            keys.sort_unstable_by_key(|&key| scan::index(key));
            keys
        })
        .collect();
    gather(&rows, |latent| latent)
}

/// Rows that share a buffer and a histogram.
const CHUNK: usize = 64;

struct Chunk {
    keys: Vec<u64>,
    counts: Vec<u32>,
}

/// The highest bin from `lowest` on above whose lower edge at least `wanted` entries lie; `lowest` when there are fewer.
fn highest_safe_bin(chunks: &[Chunk], lowest: usize, wanted: usize) -> usize {
    let mut above = 0;
    for bin in (lowest..scan::BINS).rev() {
        above += chunks.iter().map(|chunk| chunk.counts[bin] as usize).sum::<usize>();
        if above >= wanted {
            return bin;
        }
    }
    lowest
}

/// The k·N largest of the whole batch.
///
/// A histogram of all entries above the threshold so far gives the highest
/// bin above which at least k·N of them lie: a new threshold, and always a
/// safe one. The excess within the last bin is removed at the end.
pub(super) fn whole_batch(product: &Product<'_>, k: usize) -> Entries {
    let (rows, n) = (product.rows(), product.n());
    let wanted = k * rows;
    let mut chunks: Vec<Chunk> = (0..rows.div_ceil(CHUNK)).map(|_| Chunk { keys: Vec::new(), counts: vec![0; scan::BINS] }).collect();
    let mut lowest_bin = 0;
    product.blocks(|block| {
        let bias = &product.bias[block.first_latent..][..block.latents];
        let here = block.values.len().div_ceil(CHUNK * block.latents);
        let here = block.first_row / CHUNK..block.first_row / CHUNK + here;
        let first_look = lowest_bin == 0;
        if first_look {
            chunks[here.clone()].par_iter_mut().zip(block.values.par_chunks(CHUNK * block.latents)).for_each(|(chunk, values)| {
                values.chunks(block.latents).for_each(|row| scan::count(row, bias, &mut chunk.counts));
            });
            lowest_bin = highest_safe_bin(&chunks, lowest_bin, wanted);
        }
        let threshold = scan::below_bin(lowest_bin);
        let first_chunk = here.start;
        chunks[here].par_iter_mut().zip(block.values.par_chunks(CHUNK * block.latents)).enumerate().for_each(|(at, (chunk, values))| {
            let before = chunk.keys.len();
            for (row, values) in values.chunks(block.latents).enumerate() {
                let row = (first_chunk + at) * CHUNK + row;
                scan::above(values, bias, threshold, (row * n + block.first_latent) as u32, &mut chunk.keys);
            }
            if !first_look {
                chunk.keys[before..].iter().for_each(|&key| chunk.counts[scan::bin(key)] += 1);
            }
        });
        lowest_bin = highest_safe_bin(&chunks, lowest_bin, wanted);
        chunks.par_iter_mut().for_each(|chunk| chunk.keys.retain(|&key| scan::bin(key) >= lowest_bin));
    });
    let mut keys: Vec<u64> = chunks.into_iter().flat_map(|chunk| chunk.keys).collect();
    keep_largest(&mut keys, wanted);
    keys.par_sort_unstable_by_key(|&key| scan::index(key));
    by_row(&keys, rows, n)
}

/// Entries above a threshold a latent, of either sign.
pub(super) fn above(product: &Product<'_>, thresholds: &[f32]) -> Entries {
    let mut rows: Vec<Vec<u64>> = vec![Vec::new(); product.rows()];
    product.blocks(|block| {
        let of_block = block.first_latent..block.first_latent + block.latents;
        let (bias, thresholds) = (&product.bias[of_block.clone()], &thresholds[of_block]);
        rows[block.first_row..]
            .par_iter_mut()
            .zip(block.values.par_chunks(block.latents))
            .with_min_len(16)
            .for_each(|(keys, values)| scan::above_each(values, bias, thresholds, block.first_latent as u32, keys));
    });
    gather(&rows, |latent| latent)
}

/// Keys that rise in `row · n + latent`, as the parts of a pattern.
fn by_row(keys: &[u64], rows: usize, n: usize) -> Entries {
    let mut starts = vec![0_u32; rows + 1];
    for &key in keys {
        starts[scan::index(key) as usize / n + 1] += 1;
    }
    for row in 0..rows {
        starts[row + 1] += starts[row];
    }
    let latents = keys.iter().map(|&key| scan::index(key) % n as u32).collect();
    (starts, latents, keys.iter().map(|&key| scan::value(key)).collect())
}
