//! Mean correlation coefficient: how well each true latent is matched by one estimated latent.
//!
//! `MCC = 1/dz · Σ_j |r(z_j, ẑ_π(j))|` with the matching π that maximises the
//! sum (for dz ≠ dẑ an unmatched true latent counts 0). With `held_out`, π is found on the first
//! half of the samples and scored on the second.
//!
//! The matching picks the best of many, so MCC of unrelated codes is above 0
//! and of a *random rotation* of the truth far above it (≈ .65 at dz = 8): each
//! score carries the random-rotation null.
//!
//! # Source
//! Hyvärinen & Morioka 2016; Khemakhem et al. 2020, arXiv 1907.04809, §5.

use serde::{Deserialize, Serialize};

use super::assignment::largest_assignment;
use super::correlation::pearson_of;
use super::null::random_rotation;
use super::{Correlation, Evidence, Metric, MetricError, Null, Score, bootstrap};
use crate::Matrix;
use crate::catalogue::Member;

/// MCC by Pearson's or Spearman's correlation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mcc {
    /// Which correlation.
    pub correlation: Correlation,
    /// Match on the first half of the samples, score on the second.
    pub held_out: bool,
}

/// A matching and what it scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Matching {
    /// The mean over true latents.
    pub value: f64,
    /// Correlations `[dz, dẑ]`, signed.
    pub matrix: Matrix,
    /// The estimated latent of each true one.
    pub assignment: Vec<Option<usize>>,
}

impl Mcc {
    /// Matches `latents [N, dz]` with `codes [N, dẑ]`.
    pub fn matching(&self, latents: &Matrix, codes: &Matrix) -> Matching {
        let half = latents.nrows() / 2;
        let part = |m: &Matrix, from: usize, to: usize| m.subrows(from, to - from).to_owned();
        let (fitted, matrix) = if self.held_out {
            let first = self.correlation.between(&part(latents, 0, half), &part(codes, 0, half));
            (first, self.correlation.between(&part(latents, half, latents.nrows()), &part(codes, half, codes.nrows())))
        } else {
            let matrix = self.correlation.between(latents, codes);
            (matrix.clone(), matrix)
        };
        let size = |m: &Matrix| Matrix::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)].abs());
        let assignment = largest_assignment(&size(&fitted));
        let total: f64 = assignment.iter().enumerate().filter_map(|(j, to)| to.map(|to| matrix[(j, to)].abs())).sum();
        Matching { value: total / assignment.len().max(1) as f64, matrix, assignment }
    }
}

/// Rotations drawn for the null.
const ROTATIONS: usize = 20;
/// Resamples of the bootstrap interval.
const RESAMPLES: usize = 200;

impl Mcc {
    fn score(&self, evidence: &Evidence<'_>) -> Result<Score, MetricError> {
        evidence.check()?;
        let Matching { value, assignment, .. } = self.matching(evidence.latents, evidence.codes);
        let draws = random_rotation(evidence.latents, ROTATIONS, evidence.seed, |rotated| self.matching(evidence.latents, rotated).value);
        Ok(Score {
            value,
            null: Some(Null::of("random rotation of the truth", &draws)),
            interval: Some(self.interval(evidence, &assignment)),
            higher_is_better: true,
        })
    }

    /// 95 % bootstrap interval over the samples that are scored, the matching (and the ranks) held fixed.
    fn interval(&self, evidence: &Evidence<'_>, assignment: &[Option<usize>]) -> (f64, f64) {
        let (latents, codes) = (self.correlation.prepared(evidence.latents), self.correlation.prepared(evidence.codes));
        let start = if self.held_out { latents.nrows() / 2 } else { 0 };
        bootstrap(latents.nrows() - start, RESAMPLES, evidence.seed, |samples| {
            let of_pair =
                |(j, l): (usize, usize)| pearson_of(samples.iter().map(|&n| (latents[(start + n, j)], codes[(start + n, l)]))).abs();
            let matched = assignment.iter().enumerate().filter_map(|(j, to)| to.map(|l| (j, l)));
            matched.map(of_pair).sum::<f64>() / assignment.len().max(1) as f64
        })
    }
}

/// MCC by Pearson's correlation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MccPearson {
    /// Match on the first half of the samples, score on the second.
    pub held_out: bool,
}

/// MCC by Spearman's correlation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MccSpearman {
    /// Match on the first half of the samples, score on the second.
    pub held_out: bool,
}

impl Member for MccPearson {
    const ABOUT: &'static str = "mean |Pearson correlation| of matched latents, beside a random rotation's";
    const SOURCE: &'static str = "Hyvärinen & Morioka 2016; Khemakhem et al. 2020";
}

impl Member for MccSpearman {
    const ABOUT: &'static str = "mean |Spearman correlation| of matched latents: blind to monotone distortion";
    const SOURCE: &'static str = "Hyvärinen & Morioka 2016; Khemakhem et al. 2020";
}

impl Metric for MccPearson {
    fn score(&self, evidence: &Evidence<'_>) -> Result<Score, MetricError> {
        Mcc { correlation: Correlation::Pearson, held_out: self.held_out }.score(evidence)
    }
}

impl Metric for MccSpearman {
    fn score(&self, evidence: &Evidence<'_>) -> Result<Score, MetricError> {
        Mcc { correlation: Correlation::Spearman, held_out: self.held_out }.score(evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;
    use crate::world::LatentDistribution;

    #[test]
    fn permuted_negated_truth_scores_one_and_a_missing_latent_counts_zero() {
        let z = LatentDistribution::Gaussian.draw(500, 3, &mut stream(1, "z"));
        let order = [2, 0, 1];
        let codes = Matrix::from_fn(500, 3, |n, j| -2.0 * z[(n, order[j])] + 1.0);
        let matching = Mcc::default().matching(&z, &codes);
        assert!((matching.value - 1.0).abs() < 1e-12);
        assert_eq!(matching.assignment, [Some(1), Some(2), Some(0)]);
        let fewer = codes.subcols(0, 2).to_owned();
        assert!((Mcc::default().matching(&z, &fewer).value - 2.0 / 3.0).abs() < 1e-12);
    }

    /// The interval of r of two normal variables is that of Fisher's z: r = .8, n = 2000 gives ± .016.
    #[test]
    fn the_interval_is_fishers() {
        let z = LatentDistribution::Gaussian.draw(2000, 2, &mut stream(8, "z"));
        let latents = z.subcols(0, 1).to_owned();
        let codes = Matrix::from_fn(2000, 1, |n, _| 0.8 * z[(n, 0)] + 0.6 * z[(n, 1)]);
        let evidence = Evidence { latents: &latents, codes: &codes, support: None, dependency: None, seed: 3 };
        let Ok(Score { value, interval: Some((low, high)), .. }) = Mcc::default().score(&evidence) else { panic!("no interval") };
        let fisher = |side: f64| (value.atanh() + side * 1.96 / 1997.0_f64.sqrt()).tanh();
        assert!((low - fisher(-1.0)).abs() < 0.004 && (high - fisher(1.0)).abs() < 0.004, "{low} {value} {high}");
    }

    /// A cubic distortion is invisible to Spearman and not to Pearson.
    #[test]
    fn spearman_is_blind_to_monotone_maps() {
        let z = LatentDistribution::Gaussian.draw(500, 2, &mut stream(2, "z"));
        let codes = Matrix::from_fn(500, 2, |n, j| z[(n, j)].powi(3));
        let by = |correlation| Mcc { correlation, held_out: true }.matching(&z, &codes).value;
        assert!((by(Correlation::Spearman) - 1.0).abs() < 1e-12 && by(Correlation::Pearson) < 0.9);
    }
}
