//! Intervals: a percentile bootstrap over samples, and mean with t-interval over seeds.
//!
//! # Source
//! Efron 1979 (percentile bootstrap); Student 1908.

use rand::Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::random::stream;

/// The 95 % percentile interval of a statistic over resamples of `samples` indices.
pub fn bootstrap(samples: usize, resamples: usize, seed: u64, statistic: impl Fn(&[usize]) -> f64 + Sync) -> (f64, f64) {
    let mut values: Vec<f64> = (0..resamples)
        .into_par_iter()
        .map(|resample| {
            let mut chance = stream(seed, &format!("bootstrap/{resample}"));
            let indices: Vec<usize> = (0..samples).map(|_| chance.random_range(0..samples)).collect();
            statistic(&indices)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    let at = |fraction: f64| values[((values.len() - 1) as f64 * fraction).round() as usize];
    if values.is_empty() { (0.0, 0.0) } else { (at(0.025), at(0.975)) }
}

/// Mean over seeds with its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverSeeds {
    /// Mean.
    pub mean: f64,
    /// Standard deviation, divided by n − 1; 0 for one seed.
    pub std: f64,
    /// Half-width of the 95 % t-interval of the mean; 0 for one seed.
    pub half_width: f64,
    /// n.
    pub seeds: usize,
}

/// 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond, the normal one.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
    2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl OverSeeds {
    /// Summary of one value a seed.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n.max(1) as f64;
        if n < 2 {
            return Self { mean, std: 0.0, half_width: 0.0, seeds: n };
        }
        let std = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64).sqrt();
        let t = T_975.get(n - 2).copied().unwrap_or(1.96);
        Self { mean, std, half_width: t * std / (n as f64).sqrt(), seeds: n }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let s = OverSeeds::of(&[1.0, 2.0, 3.0]);
        assert!((s.mean - 2.0).abs() < 1e-12 && (s.std - 1.0).abs() < 1e-12 && (s.half_width - 4.303 / 3.0_f64.sqrt()).abs() < 1e-9);
        let data: Vec<f64> = (0..400).map(|i| f64::from(i % 2)).collect();
        let (low, high) = bootstrap(400, 400, 1, |indices| indices.iter().map(|&i| data[i]).sum::<f64>() / 400.0);
        // The mean of 400 fair coins has standard deviation 0.025.
        assert!((low - 0.451).abs() < 0.012 && (high - 0.549).abs() < 0.012, "{low} {high}");
    }
}
