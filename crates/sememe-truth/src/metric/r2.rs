//! Block R²: how much of one block of latents can be predicted from another.
//!
//! `R² = mean over outputs of 1 − Σ(y − ŷ)²/Σ(y − ȳ)²`, on a test half that
//! neither the regressor nor the scaler has seen. A negative value says no more than 0 does, so the
//! score is clipped at 0; [`r_squared`] returns it raw.
//!
//! For two groups K and V of observed variables, with index sets `I_K`, `I_V`
//! and the estimated latents in the order of their matched true ones, [`set_scores`] predicts
//!
//! | name | from estimated | to true | should be |
//! |---|---|---|---|
//! | intersection | `I_K △ I_V` | `I_K ∩ I_V` | low (case 1) |
//! | symmetric difference | `I_K ∩ I_V` | `I_K △ I_V` | low (case 2) |
//! | complement of V | `I_V \ I_K` | `I_K \ I_V` | low (case 3) |
//! | complement of K | `I_K \ I_V` | `I_V \ I_K` | low (case 3) |
//! | reference | all | all | high |
//!
//! Dependent latents predict each other, so each comes with its floor: the same prediction from the *true* block.
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, §5.1 (Int, SymDiff, CompA, CompB, Ref).

use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::null::permutation;
use super::regress::{BoostedTrees, KernelRidge, Linear, Regressor};
use super::{Evidence, Matching, Mcc, Metric, MetricError, Null, Score, bootstrap};
use crate::Matrix;
use crate::catalogue::Member;
use crate::random::stream;
use crate::structure::{Comparison, Latents};

/// R² of `targets [N, …]` from `inputs [N, …]`, fitted on one random half and judged on the other; raw, at most 1.
pub fn r_squared(regressor: &dyn Regressor, inputs: &Matrix, targets: &Matrix, seed: u64) -> f64 {
    Judged::new(regressor, inputs, targets, seed).map_or(0.0, |judged| judged.r_squared(0..judged.truth.nrows()))
}

/// What a regressor says of the half it has not seen.
struct Judged {
    truth: Matrix,
    predicted: Matrix,
}

impl Judged {
    /// `None` when there is nothing to predict, or nothing to predict it from.
    fn new(regressor: &dyn Regressor, inputs: &Matrix, targets: &Matrix, seed: u64) -> Option<Self> {
        let n = inputs.nrows();
        if inputs.ncols() == 0 || targets.ncols() == 0 || n < 4 {
            return None;
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.shuffle(&mut stream(seed, "r2/split"));
        let pick = |m: &Matrix, rows: &[usize]| Matrix::from_fn(rows.len(), m.ncols(), |i, j| m[(rows[i], j)]);
        let (fit, judge) = order.split_at(n / 2);
        let (mut x, y) = (pick(inputs, fit), pick(targets, fit));
        let (mut x_test, y_test) = (pick(inputs, judge), pick(targets, judge));
        for j in 0..x.ncols() {
            let mean = x.col(j).iter().sum::<f64>() / fit.len() as f64;
            let std = (x.col(j).iter().map(|v| (v - mean).powi(2)).sum::<f64>() / fit.len() as f64).sqrt();
            let scale = if std > 0.0 { 1.0 / std } else { 0.0 };
            x.col_mut(j).iter_mut().chain(x_test.col_mut(j).iter_mut()).for_each(|v| *v = (*v - mean) * scale);
        }
        Some(Self { predicted: regressor.fit_predict(&x, &y, &x_test), truth: y_test })
    }

    /// Mean R² of the outputs on these rows (repeats allowed).
    fn r_squared(&self, rows: impl Iterator<Item = usize> + Clone) -> f64 {
        let n = rows.clone().count() as f64;
        let of_output = |j: usize| {
            let mean = rows.clone().map(|i| self.truth[(i, j)]).sum::<f64>() / n;
            let total: f64 = rows.clone().map(|i| (self.truth[(i, j)] - mean).powi(2)).sum();
            let left: f64 = rows.clone().map(|i| (self.truth[(i, j)] - self.predicted[(i, j)]).powi(2)).sum();
            if total > 0.0 { 1.0 - left / total } else { 0.0 }
        };
        (0..self.truth.ncols()).map(of_output).sum::<f64>() / self.truth.ncols() as f64
    }
}

/// R² between the blocks of two groups, each with its floor from the true block; `NaN`-free, clipped at 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetScores {
    /// Int: true intersection from the estimated symmetric difference.
    pub intersection: [f64; 2],
    /// SymDiff: true symmetric difference from the estimated intersection.
    pub symmetric_difference: [f64; 2],
    /// CompA: true `I_K \ I_V` from estimated `I_V \ I_K`.
    pub complement_of_v: [f64; 2],
    /// CompB: true `I_V \ I_K` from estimated `I_K \ I_V`.
    pub complement_of_k: [f64; 2],
    /// Ref: all true latents from all estimated ones; its floor is what a permutation of samples gives.
    pub reference: [f64; 2],
}

/// The set experiment on `latents [N, dz]`, `codes [N, dẑ]` for two groups; each entry is `[score, floor]`.
pub fn set_scores(regressor: &dyn Regressor, latents: &Matrix, codes: &Matrix, groups: &Comparison, seed: u64) -> SetScores {
    let Matching { assignment, .. } = Mcc::default().matching(latents, codes);
    let columns = |m: &Matrix, of: &[usize]| Matrix::from_fn(m.nrows(), of.len(), |i, j| m[(i, of[j])]);
    let truth = |block: &Latents| columns(latents, &block.iter().copied().collect::<Vec<_>>());
    let estimate = |block: &Latents| columns(codes, &block.iter().filter_map(|&j| assignment[j]).collect::<Vec<_>>());
    let clipped = |inputs: &Matrix, targets: &Matrix| r_squared(regressor, inputs, targets, seed).max(0.0);
    let pair = |from: &Latents, to: &Latents| [clipped(&estimate(from), &truth(to)), clipped(&truth(from), &truth(to))];
    let shuffled = permutation(latents, 1, seed, |shuffled| clipped(codes, shuffled));
    SetScores {
        intersection: pair(&groups.symmetric_difference, &groups.intersection),
        symmetric_difference: pair(&groups.intersection, &groups.symmetric_difference),
        complement_of_v: pair(&groups.only_v, &groups.only_k),
        complement_of_k: pair(&groups.only_k, &groups.only_v),
        reference: [clipped(codes, latents), shuffled.first().copied().unwrap_or(0.0)],
    }
}

/// Samples that a metric regresses on at most.
const MOST_SAMPLES: usize = 3000;
/// Permutations drawn for the null.
const PERMUTATIONS: usize = 3;
/// Resamples of the bootstrap interval.
const RESAMPLES: usize = 200;

fn score(regressor: &dyn Regressor, evidence: &Evidence<'_>) -> Result<Score, MetricError> {
    evidence.check()?;
    let n = evidence.latents.nrows().min(MOST_SAMPLES);
    let (latents, codes) = (evidence.latents.subrows(0, n).to_owned(), evidence.codes.subrows(0, n).to_owned());
    let of = |targets: &Matrix| r_squared(regressor, &codes, targets, evidence.seed).max(0.0);
    let draws = permutation(&latents, PERMUTATIONS, evidence.seed, |shuffled| of(shuffled));
    let judged = Judged::new(regressor, &codes, &latents, evidence.seed).ok_or(MetricError::Missing { what: "latents on both sides" })?;
    // The regressor is held fixed: the interval is of the judged half alone.
    let rows = judged.truth.nrows();
    let interval = bootstrap(rows, RESAMPLES, evidence.seed, |rows| judged.r_squared(rows.iter().copied()).max(0.0));
    Ok(Score {
        value: judged.r_squared(0..rows).max(0.0),
        null: Some(Null::of("permutation of samples", &draws)),
        interval: Some(interval),
        higher_is_better: true,
    })
}

macro_rules! r2_metric {
    ($(#[$meta:meta])* $Type:ident, $Regressor:ident, $about:literal, $source:literal) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $Type {}

        impl Member for $Type {
            const ABOUT: &'static str = $about;
            const SOURCE: &'static str = $source;
        }

        impl Metric for $Type {
            fn score(&self, evidence: &Evidence<'_>) -> Result<Score, MetricError> {
                score(&$Regressor::default(), evidence)
            }
        }
    };
}

r2_metric!(
    /// R² of all true latents from all estimated ones by Gaussian kernel ridge.
    R2KernelRidge, KernelRidge, "R² of true from estimated latents by kernel ridge (α = 1, γ = 1/d)", "Saunders et al. 1998"
);
r2_metric!(
    /// The same by boosted trees.
    R2BoostedTrees, BoostedTrees, "R² of true from estimated latents by boosted trees (100 rounds, depth 3)", "Friedman 2001"
);
r2_metric!(
    /// The same by a linear map.
    R2Linear, Linear, "R² of true from estimated latents by a linear map", "Hoerl & Kennard 1970"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::LatentDistribution;

    #[test]
    fn linear_and_nonlinear_relations() {
        let x = LatentDistribution::Uniform.draw(2000, 2, &mut stream(1, "x"));
        let linear = Matrix::from_fn(2000, 1, |n, _| 3.0 * x[(n, 0)] - x[(n, 1)] + 2.0);
        let square = Matrix::from_fn(2000, 1, |n, _| x[(n, 0)].powi(2));
        let by = |r: &dyn Regressor, y: &Matrix| r_squared(r, &x, y, 0);
        assert!(by(&Linear::default(), &linear) > 0.999 && by(&Linear::default(), &square) < 0.05);
        for regressor in [&KernelRidge::default() as &dyn Regressor, &BoostedTrees::default()] {
            assert!(by(regressor, &linear) > 0.98 && by(regressor, &square) > 0.95);
            let noise = LatentDistribution::Gaussian.draw(2000, 1, &mut stream(9, "noise"));
            assert!(by(regressor, &noise) < 0.02);
        }
    }

    /// At the truth every separating score is its floor and the reference is 1.
    #[test]
    fn set_scores_at_the_truth() {
        let z = LatentDistribution::Gaussian.draw(2000, 3, &mut stream(3, "z"));
        let groups = Comparison {
            index_k: [0, 1].into(),
            index_v: [1, 2].into(),
            intersection: [1].into(),
            only_k: [0].into(),
            only_v: [2].into(),
            symmetric_difference: [0, 2].into(),
        };
        let scores = set_scores(&KernelRidge::default(), &z, &z, &groups, 0);
        assert_eq!(scores.intersection[0], scores.intersection[1]);
        assert!(scores.intersection[0] < 0.02 && scores.complement_of_k[0] < 0.02 && scores.reference[0] > 0.98);
    }
}
