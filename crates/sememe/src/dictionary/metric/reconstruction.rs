//! How well and how sparsely tokens are reconstructed: accumulate, merge, finish.
//!
//! Over tokens t with target x, reconstruction x̂, error e = x − x̂ and codes z:
//!
//! - L0 `mean_t #{i: z_i ≠ 0}`, L1 `mean_t Σ_i |z_i|`,
//! - cosine `mean_t x·x̂/(‖x‖‖x̂‖)`, norm ratio `mean_t ‖x̂‖/‖x‖`,
//! - NMSE `Σ_t ‖e‖² / Σ_t ‖x − mean x‖²`, NMSE0 `Σ_t ‖e‖² / Σ_t ‖x‖²`,
//! - dead fraction: latents that were never active in the tokens seen,
//! - how often latents are active: a histogram of `log₁₀(active tokens / tokens)`.
//!
//! NMSE0 flatters activations with a large mean; "explained variance" in older
//! tools is 1 − NMSE0. Tokens that a caller leaves out (the first of a text,
//! special ones) take no part in any of the numbers.
//!
//! # Source
//! Gao et al. 2024, arXiv 2406.04093, §4 (NMSE against the mean); Karvonen et al. 2025, arXiv 2503.09532.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::dictionary::Codes;

/// Sums over the tokens seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reconstruction {
    tokens: u64,
    left_out: u64,
    active: f64,
    l1: f64,
    cosine: f64,
    norm_ratio: f64,
    squared_error: f64,
    squared: f64,
    sum: Vec<f64>,
    active_tokens: Vec<u64>,
}

/// One bar of the histogram of how often latents are active.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrequencyBin {
    /// Lower edge of `log₁₀` of the frequency.
    pub log10_from: f64,
    /// Upper edge.
    pub log10_to: f64,
    /// Latents in between.
    pub latents: usize,
}

/// The scores; see the head of this file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Tokens that were scored.
    pub tokens: u64,
    /// Tokens that the caller left out.
    pub left_out_tokens: u64,
    /// Active latents a token.
    pub l0: f64,
    /// `Σ|z|` a token.
    pub l1: f64,
    /// Mean cosine of x and x̂.
    pub cosine: f64,
    /// Mean of ‖x̂‖/‖x‖.
    pub norm_ratio: f64,
    /// Mean of ‖e‖² over mean of ‖x − mean x‖².
    pub nmse: f64,
    /// Mean of ‖e‖² over mean of ‖x‖².
    pub nmse0: f64,
    /// Latents never active in `tokens` tokens.
    pub dead_fraction: f64,
    /// Latents by how often they are active; the dead are in no bar.
    pub frequencies: Vec<FrequencyBin>,
}

/// Width of a bar in `log₁₀`.
const BIN: f64 = 0.25;

impl Reconstruction {
    /// Nothing seen yet, of `n` latents and targets of width `d`.
    pub fn new(n: usize, d: usize) -> Self {
        Self {
            tokens: 0,
            left_out: 0,
            active: 0.0,
            l1: 0.0,
            cosine: 0.0,
            norm_ratio: 0.0,
            squared_error: 0.0,
            squared: 0.0,
            sum: vec![0.0; d],
            active_tokens: vec![0; n],
        }
    }

    /// Takes in a batch: `target` and `output` `[N, d]`, its codes, and which tokens count (all, without it).
    ///
    /// # Panics
    /// When shapes do not match.
    pub fn accumulate(&mut self, target: &Tensor<2>, output: &Tensor<2>, codes: &Codes, keep: Option<&[bool]>) {
        let ([rows, d], (pattern, values)) = (target.dims(), codes.active());
        assert_eq!([output.dims(), [pattern.rows(), pattern.n()]], [[rows, d], [rows, self.active_tokens.len()]], "shapes of the batch");
        assert!(d == self.sum.len() && keep.is_none_or(|keep| keep.len() == rows), "width of the batch, or number of marks");
        let read = |tensor: &Tensor<2>| tensor.to_data().iter::<f32>().collect::<Vec<f32>>();
        let (target, output) = (read(target), read(output));
        for row in 0..rows {
            if keep.is_some_and(|keep| !keep[row]) {
                self.left_out += 1;
                continue;
            }
            let (mut xx, mut yy, mut xy, mut ee) = (0.0, 0.0, 0.0, 0.0);
            for ((sum, &x), &y) in self.sum.iter_mut().zip(&target[row * d..]).zip(&output[row * d..(row + 1) * d]) {
                let (x, y) = (f64::from(x), f64::from(y));
                *sum += x;
                xx += x * x;
                yy += y * y;
                xy += x * y;
                ee += (x - y) * (x - y);
            }
            self.tokens += 1;
            self.squared += xx;
            self.squared_error += ee;
            // A token that is 0, or reconstructed as 0, has no direction: it counts as cosine 0 and ratio 0.
            if xx > 0.0 {
                self.norm_ratio += (yy / xx).sqrt();
                if yy > 0.0 {
                    self.cosine += xy / (xx * yy).sqrt();
                }
            }
            for entry in pattern.range(row) {
                let value = f64::from(values[entry]);
                if value != 0.0 {
                    self.active += 1.0;
                    self.l1 += value.abs();
                    self.active_tokens[pattern.latents()[entry] as usize] += 1;
                }
            }
        }
    }

    /// Adds what another accumulated over other tokens.
    ///
    /// # Panics
    /// When it is of another dictionary's shape.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.sum.len(), self.active_tokens.len()), (other.sum.len(), other.active_tokens.len()), "shapes of the accumulators");
        self.tokens += other.tokens;
        self.left_out += other.left_out;
        self.active += other.active;
        self.l1 += other.l1;
        self.cosine += other.cosine;
        self.norm_ratio += other.norm_ratio;
        self.squared_error += other.squared_error;
        self.squared += other.squared;
        self.sum.iter_mut().zip(&other.sum).for_each(|(a, b)| *a += b);
        self.active_tokens.iter_mut().zip(&other.active_tokens).for_each(|(a, b)| *a += b);
    }

    /// The scores; NaN where nothing was seen or a baseline is 0.
    pub fn finish(&self) -> Scores {
        let tokens = self.tokens as f64;
        let of_mean = self.sum.iter().map(|sum| sum * sum).sum::<f64>() / tokens;
        let dead = self.active_tokens.iter().filter(|&&count| count == 0).count();
        Scores {
            tokens: self.tokens,
            left_out_tokens: self.left_out,
            l0: self.active / tokens,
            l1: self.l1 / tokens,
            cosine: self.cosine / tokens,
            norm_ratio: self.norm_ratio / tokens,
            nmse: self.squared_error / (self.squared - of_mean),
            nmse0: self.squared_error / self.squared,
            dead_fraction: dead as f64 / self.active_tokens.len() as f64,
            frequencies: self.frequencies(),
        }
    }

    fn frequencies(&self) -> Vec<FrequencyBin> {
        let bins = ((self.tokens.max(1) as f64).log10() / BIN).ceil() as usize + 1;
        let mut counts = vec![0; bins];
        for &count in self.active_tokens.iter().filter(|&&count| count > 0) {
            let below = -(count as f64 / self.tokens as f64).log10() / BIN;
            counts[(below as usize).min(bins - 1)] += 1;
        }
        let bar =
            |(bin, &latents): (usize, &usize)| FrequencyBin { log10_from: -BIN * (bin + 1) as f64, log10_to: -BIN * bin as f64, latents };
        counts.iter().enumerate().rev().map(bar).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn batch(target: [[f32; 2]; 2], output: [[f32; 2]; 2], z: [[f32; 3]; 2]) -> (Tensor<2>, Tensor<2>, Codes) {
        let device = Device::flex();
        (Tensor::from_floats(target, &device), Tensor::from_floats(output, &device), Codes::Dense(Tensor::from_floats(z, &device)))
    }

    #[test]
    fn scores_by_hand() {
        let (x, y, z) = batch([[3.0, 4.0], [1.0, 0.0]], [[3.0, 0.0], [0.0, 2.0]], [[0.0, 2.0, 0.0], [1.0, 3.0, 0.0]]);
        let mut seen = Reconstruction::new(3, 2);
        seen.accumulate(&x, &y, &z, None);
        let scores = seen.finish();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} against {b}");
        close(scores.l0, 1.5);
        close(scores.l1, 3.0);
        close(scores.cosine, 0.5 * (9.0 / 15.0));
        close(scores.norm_ratio, 0.5 * (0.6 + 2.0));
        // Errors 16 and 5; the mean is (2, 2), around which the squares are 1+4 and 1+4.
        close(scores.nmse, 21.0 / 10.0);
        close(scores.nmse0, 21.0 / 26.0);
        close(scores.dead_fraction, 1.0 / 3.0);
        assert_eq!(scores.frequencies.iter().map(|bin| bin.latents).sum::<usize>(), 2);
        let last = scores.frequencies.last().expect("a bar");
        assert_eq!((last.log10_to, last.latents), (0.0, 1));
    }

    /// Parts merged are the whole, and tokens left out take no part.
    #[test]
    fn merging_and_leaving_out() {
        let (x, y, z) = batch([[3.0, 4.0], [1.0, 0.0]], [[3.0, 0.0], [0.0, 2.0]], [[0.0, 2.0, 0.0], [1.0, 3.0, 0.0]]);
        let part = |keep: [bool; 2]| {
            let mut seen = Reconstruction::new(3, 2);
            seen.accumulate(&x, &y, &z, Some(&keep));
            seen
        };
        let mut merged = part([true, false]);
        merged.merge(&part([false, true]));
        let whole = part([true, true]);
        assert_eq!(Reconstruction { left_out: 0, ..merged }, whole);
        assert_eq!(part([true, false]).finish().l0, 1.0);
        assert_eq!(part([true, false]).finish().left_out_tokens, 1);
    }
}
