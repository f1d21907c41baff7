//! What scores are read against: a random rotation of the truth, a permutation of the samples, and summaries of draws.

use rand::seq::SliceRandom;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::correlation::unit_columns;
use crate::Matrix;
use crate::random::stream;
use crate::world::LatentDistribution;

/// A distribution of a score under chance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Null {
    /// What chance means here.
    pub of: String,
    /// Mean over draws.
    pub mean: f64,
    /// 95 % quantile over draws.
    pub upper_95: f64,
}

impl Null {
    /// Summary of draws.
    pub fn of(what: &str, draws: &[f64]) -> Self {
        let mut sorted = draws.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = ((sorted.len() as f64 * 0.95).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
        Self {
            of: what.into(),
            mean: draws.iter().sum::<f64>() / draws.len().max(1) as f64,
            upper_95: sorted.get(at).copied().unwrap_or(0.0),
        }
    }
}

/// A rotation drawn uniformly: Gram–Schmidt on normal columns (Stewart 1980).
fn rotation(size: usize, seed: u64, draw: usize) -> Matrix {
    let mut q = LatentDistribution::Gaussian.draw(size, size, &mut stream(seed, &format!("null/rotation/{draw}")));
    for j in 0..size {
        for l in 0..j {
            let dot: f64 = (0..size).map(|i| q[(i, j)] * q[(i, l)]).sum();
            (0..size).for_each(|i| q[(i, j)] -= dot * q[(i, l)]);
        }
        let norm = (0..size).map(|i| q[(i, j)].powi(2)).sum::<f64>().sqrt();
        (0..size).for_each(|i| q[(i, j)] /= norm);
    }
    q
}

/// The statistic of `draws` random rotations of the standardised `latents [N, dz]`.
pub fn random_rotation(latents: &Matrix, draws: usize, seed: u64, statistic: impl Fn(&Matrix) -> f64 + Sync) -> Vec<f64> {
    let unit = unit_columns(latents);
    (0..draws).into_par_iter().map(|draw| statistic(&(&unit * rotation(latents.ncols(), seed, draw)))).collect()
}

/// The statistic of `draws` random orders of the samples of `latents [N, dz]`.
pub fn permutation(latents: &Matrix, draws: usize, seed: u64, statistic: impl Fn(&Matrix) -> f64 + Sync) -> Vec<f64> {
    (0..draws)
        .into_par_iter()
        .map(|draw| {
            let mut order: Vec<usize> = (0..latents.nrows()).collect();
            order.shuffle(&mut stream(seed, &format!("null/permutation/{draw}")));
            statistic(&Matrix::from_fn(latents.nrows(), latents.ncols(), |i, j| latents[(order[i], j)]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Mcc;

    /// The trap that the null is there for: MCC of a random rotation is about .65 at dz = 8.
    #[test]
    fn a_random_rotation_scores_far_above_zero() {
        let z = LatentDistribution::Gaussian.draw(2000, 8, &mut stream(1, "z"));
        let draws = random_rotation(&z, 20, 0, |rotated| Mcc::default().matching(&z, rotated).value);
        let null = Null::of("rotation", &draws);
        assert!((null.mean - 0.65).abs() < 0.05 && null.upper_95 < 0.8, "{null:?}");
        let chance = permutation(&z, 5, 0, |shuffled| Mcc::default().matching(&z, shuffled).value);
        assert!(chance.iter().all(|&value| value < 0.06));
    }
}
