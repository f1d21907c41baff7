//! How many entries of the Jacobian matter, and how heavy their tails are.
//!
//! Of all entries of a token's block, how many have `|J|` above each of
//! [`THRESHOLDS`]: as they are, and divided by the root mean square of all
//! entries seen, so that small numbers do not pass for sparse ones. Kurtosis
//! is `E(J − E J)⁴ / (E(J − E J)²)²`: 3 for a normal distribution.
//!
//! # Source
//! Farnik et al. 2025, arXiv 2502.18147, §5.1 and appendix on normalised Jacobians.

use serde::{Deserialize, Serialize};

/// The sizes above which entries are counted.
pub const THRESHOLDS: [f64; 4] = [0.005, 0.01, 0.02, 0.04];

/// Entries of some tokens.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    values: Vec<f32>,
    tokens: usize,
}

/// What [`Entries`] amount to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryScores {
    /// Tokens that were looked at.
    pub tokens: usize,
    /// Entries of a token's block, on average.
    pub block: f64,
    /// Of these, how many have |J| above each threshold.
    pub above: [f64; 4],
    /// The same of J over the root mean square of all entries.
    pub above_normalised: [f64; 4],
    /// Mean over tokens of Σ|J|.
    pub l1: f64,
    /// Root mean square of all entries.
    pub rms: f64,
    /// 3 for a normal distribution.
    pub kurtosis: f64,
}

impl Entries {
    /// Takes in the blocks of `tokens` tokens.
    pub fn accumulate(&mut self, entries: &[f32], tokens: usize) {
        self.values.extend_from_slice(entries);
        self.tokens += tokens;
    }

    /// The scores of everything that was taken in.
    pub fn finish(&self) -> EntryScores {
        let (tokens, count) = (self.tokens.max(1) as f64, self.values.len().max(1) as f64);
        let sum_of = |f: &dyn Fn(f64) -> f64| self.values.iter().map(|&value| f(f64::from(value))).sum::<f64>();
        let rms = (sum_of(&|j| j * j) / count).sqrt();
        let mean = sum_of(&|j| j) / count;
        let moment = |power: i32| sum_of(&|j| (j - mean).powi(power)) / count;
        let above = |unit: f64| THRESHOLDS.map(|threshold| sum_of(&|j| f64::from(u8::from(j.abs() > threshold * unit))) / tokens);
        let variance = moment(2);
        EntryScores {
            tokens: self.tokens,
            block: self.values.len() as f64 / tokens,
            above: above(1.0),
            above_normalised: above(rms),
            l1: sum_of(&f64::abs) / tokens,
            rms,
            kurtosis: if variance > 0.0 { moment(4) / (variance * variance) } else { f64::NAN },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let mut entries = Entries::default();
        entries.accumulate(&[0.03, -0.03, 0.006, 0.0], 2);
        let scores = entries.finish();
        assert_eq!(scores.above, [1.5, 1.0, 1.0, 0.0]);
        assert_eq!(scores.block, 2.0);
        // The root mean square is .0214: even .006 is above 4 % of it.
        assert_eq!(scores.above_normalised, [1.5; 4]);
        assert!((scores.l1 - 0.033).abs() < 1e-8);
        let two = Entries { values: vec![1.0, -1.0], tokens: 1 };
        assert!((two.finish().kurtosis - 1.0).abs() < 1e-12);
    }
}
