//! Recovery of the dependency structure: the estimated support against the true one, up to the order of latents.
//!
//! Columns are matched by the assignment with the least total Hamming distance
//! (not by MCC: the structure is judged on its own). Then, over the entries:
//! SHD is the number of differences, `F1 = 2TP/(2TP + FP + FN)`, `IoU = TP/(TP + FP + FN)`.
//! AUROC ranks the entries of the mean |J| (each divided by its row's largest) and needs no threshold; ties count one half.
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, theorem 2 (the support is identified up to a permutation of columns).

use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::assignment::largest_assignment;
use super::{Evidence, Metric, MetricError, Null, Score, bootstrap};
use crate::Matrix;
use crate::catalogue::Member;
use crate::random::stream;
use crate::structure::{Support, Threshold};

/// What a matched pair of structures has in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovery {
    /// The estimated column of each true one.
    pub assignment: Vec<Option<usize>>,
    /// Structural Hamming distance: entries that differ.
    pub shd: usize,
    /// Of the estimated dependencies, the fraction that is true.
    pub precision: f64,
    /// Of the true dependencies, the fraction that was found.
    pub recall: f64,
    /// Harmonic mean of the two.
    pub f1: f64,
    /// Intersection over union.
    pub iou: f64,
}

/// Hits, misses and inventions of matched columns, entry by entry.
#[derive(Clone, Copy, Default)]
struct Counts {
    hit: usize,
    missed: usize,
    extra: usize,
}

impl Counts {
    /// Those of row `i`.
    fn of_row(truth: &Support, estimate: &Support, assignment: &[Option<usize>], i: usize) -> Self {
        let mut counts = Self::default();
        let mut count = |is_true: bool, is_estimated: bool| match (is_true, is_estimated) {
            (true, true) => counts.hit += 1,
            (true, false) => counts.missed += 1,
            (false, true) => counts.extra += 1,
            (false, false) => {}
        };
        for (j, to) in assignment.iter().enumerate() {
            count(truth.get(i, j), to.is_some_and(|l| estimate.get(i, l)));
        }
        (0..estimate.latents()).filter(|l| !assignment.contains(&Some(*l))).for_each(|l| count(false, estimate.get(i, l)));
        counts
    }

    fn add(self, other: Self) -> Self {
        Self { hit: self.hit + other.hit, missed: self.missed + other.missed, extra: self.extra + other.extra }
    }

    fn recovery(self, assignment: Vec<Option<usize>>) -> Recovery {
        let Self { hit, missed, extra } = self;
        let ratio = |part: usize, whole: usize| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        Recovery {
            shd: missed + extra,
            precision: ratio(hit, hit + extra),
            recall: ratio(hit, hit + missed),
            f1: ratio(2 * hit, 2 * hit + missed + extra),
            iou: ratio(hit, hit + missed + extra),
            assignment,
        }
    }
}

/// Compares `estimate [dx, dẑ]` with `truth [dx, dz]` after the best matching of columns; an unmatched column counts as empty.
pub fn recovery(truth: &Support, estimate: &Support) -> Recovery {
    let agreement = Matrix::from_fn(truth.latents(), estimate.latents(), |j, l| {
        (0..truth.rows()).filter(|&i| truth.get(i, j) == estimate.get(i, l)).count() as f64
    });
    let assignment = largest_assignment(&agreement);
    let counts = (0..truth.rows()).map(|i| Counts::of_row(truth, estimate, &assignment, i)).fold(Counts::default(), Counts::add);
    counts.recovery(assignment)
}

/// Resamples of the bootstrap intervals.
const RESAMPLES: usize = 200;

/// 95 % interval over resampled observed variables, the matching of columns held fixed.
fn interval_of(truth: &Support, estimate: &Support, matched: &Recovery, seed: u64, value: impl Fn(&Recovery) -> f64 + Sync) -> (f64, f64) {
    let rows: Vec<Counts> = (0..truth.rows()).map(|i| Counts::of_row(truth, estimate, &matched.assignment, i)).collect();
    bootstrap(rows.len(), RESAMPLES, seed, |chosen| {
        value(&chosen.iter().map(|&i| rows[i]).fold(Counts::default(), Counts::add).recovery(Vec::new()))
    })
}

/// Area under the ROC curve of `score` for telling `truth` apart, ties counted one half; ½ when one class is empty.
fn auroc(truth: &[bool], score: &[f64]) -> f64 {
    let mut order: Vec<usize> = (0..score.len()).collect();
    order.sort_by(|&a, &b| score[a].total_cmp(&score[b]));
    let (mut rank_sum, mut start) = (0.0, 0);
    while start < order.len() {
        let ties = order[start..].iter().take_while(|&&i| score[i] == score[order[start]]).count();
        let rank = start as f64 + (ties as f64 + 1.0) / 2.0;
        rank_sum += rank * order[start..start + ties].iter().filter(|&&i| truth[i]).count() as f64;
        start += ties;
    }
    let positive = truth.iter().filter(|&&t| t).count() as f64;
    let negative = truth.len() as f64 - positive;
    if positive == 0.0 || negative == 0.0 { 0.5 } else { (rank_sum - positive * (positive + 1.0) / 2.0) / (positive * negative) }
}

fn truth_and_dependency<'a>(evidence: &Evidence<'a>) -> Result<(&'a Support, &'a Matrix), MetricError> {
    evidence.check()?;
    let truth = evidence.support.ok_or(MetricError::Missing { what: "the true dependency structure" })?;
    let dependency = evidence.dependency.ok_or(MetricError::Missing { what: "the mean |Jacobian| of the model" })?;
    if truth.rows() != dependency.nrows() {
        return Err(MetricError::Shape { what: "rows of the mean |Jacobian|", expected: truth.rows(), got: dependency.nrows() });
    }
    Ok((truth, dependency))
}

/// Draws of the null.
const DRAWS: usize = 50;

/// The null: the estimate's entries dealt out anew within each row, so that each row keeps its density.
fn null_of(estimate: &Support, seed: u64, value: impl Fn(&Support) -> f64) -> Null {
    let draws: Vec<f64> = (0..DRAWS)
        .map(|draw| {
            let mut chance = stream(seed, &format!("structure/null/{draw}"));
            let rows = (0..estimate.rows())
                .map(|i| {
                    let mut row: Vec<bool> = (0..estimate.latents()).map(|j| estimate.get(i, j)).collect();
                    row.shuffle(&mut chance);
                    row
                })
                .collect();
            Support::new(rows).map_or(0.0, |shuffled| value(&shuffled))
        })
        .collect();
    Null::of("entries shuffled within rows", &draws)
}

macro_rules! structure_metric {
    ($(#[$meta:meta])* $Type:ident, $about:literal, $higher:literal, $value:expr) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $Type {
            /// An entry counts as a dependency above this fraction of its row's largest.
            pub threshold: f64,
        }

        impl Default for $Type {
            fn default() -> Self {
                Self { threshold: 0.1 }
            }
        }

        impl Member for $Type {
            const ABOUT: &'static str = $about;
            const SOURCE: &'static str = "Zheng et al. 2026, arXiv 2604.17568, theorem 2";
        }

        impl Metric for $Type {
            fn score(&self, evidence: &Evidence<'_>) -> Result<Score, MetricError> {
                let (truth, dependency) = truth_and_dependency(evidence)?;
                let estimate = Support::from_dependency(dependency, Threshold::OfRow(self.threshold)).map_err(|error| MetricError::Structure(error.to_string()))?;
                let of: fn(&Recovery) -> f64 = $value;
                let matched = recovery(truth, &estimate);
                let null = null_of(&estimate, evidence.seed, |shuffled| of(&recovery(truth, shuffled)));
                let interval = interval_of(truth, &estimate, &matched, evidence.seed, of);
                Ok(Score { value: of(&matched), null: Some(null), interval: Some(interval), higher_is_better: $higher })
            }
        }
    };
}

structure_metric!(
    /// F1 of the estimated dependencies.
    StructureF1, "F1 of the estimated dependency structure", true, |r| r.f1
);
structure_metric!(
    /// Intersection over union of the dependencies.
    StructureIou, "intersection over union of the dependency structures", true, |r| r.iou
);
structure_metric!(
    /// Structural Hamming distance.
    StructureShd, "structural Hamming distance to the true structure", false, |r| r.shd as f64
);

/// AUROC of the mean |J| as a detector of dependencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StructureAuroc {
    /// Threshold at which columns are matched.
    pub threshold: f64,
}

impl Default for StructureAuroc {
    fn default() -> Self {
        Self { threshold: 0.1 }
    }
}

impl Member for StructureAuroc {
    const ABOUT: &'static str = "AUROC of the mean |Jacobian| over all thresholds";
    const SOURCE: &'static str = "Zheng et al. 2026, arXiv 2604.17568, theorem 2";
}

impl Metric for StructureAuroc {
    fn score(&self, evidence: &Evidence<'_>) -> Result<Score, MetricError> {
        let (truth, dependency) = truth_and_dependency(evidence)?;
        let estimate = Support::from_dependency(dependency, Threshold::OfRow(self.threshold))
            .map_err(|error| MetricError::Structure(error.to_string()))?;
        let matched = recovery(truth, &estimate).assignment;
        let (mut truths, mut scores) = (Vec::new(), Vec::new());
        for i in 0..truth.rows() {
            let largest = (0..dependency.ncols()).map(|l| dependency[(i, l)].abs()).fold(f64::MIN_POSITIVE, f64::max);
            for (j, to) in matched.iter().enumerate() {
                truths.push(truth.get(i, j));
                scores.push(to.map_or(0.0, |l| dependency[(i, l)].abs() / largest));
            }
        }
        let draws: Vec<f64> = (0..DRAWS)
            .map(|draw| {
                let mut shuffled = scores.clone();
                shuffled.shuffle(&mut stream(evidence.seed, &format!("structure/auroc/{draw}")));
                auroc(&truths, &shuffled)
            })
            .collect();
        let width = matched.len();
        let interval = bootstrap(truth.rows(), RESAMPLES, evidence.seed, |rows| {
            let entries = || rows.iter().flat_map(|&i| i * width..(i + 1) * width);
            auroc(&entries().map(|e| truths[e]).collect::<Vec<_>>(), &entries().map(|e| scores[e]).collect::<Vec<_>>())
        });
        Ok(Score {
            value: auroc(&truths, &scores),
            null: Some(Null::of("entries shuffled", &draws)),
            interval: Some(interval),
            higher_is_better: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::support;

    #[test]
    fn counts_by_hand() {
        let truth = support(&[&[1, 0], &[1, 1], &[0, 1]]);
        // Columns swapped, one dependency missed and one invented.
        let estimate = support(&[&[0, 1], &[0, 1], &[1, 1]]);
        let r = recovery(&truth, &estimate);
        assert_eq!((r.assignment, r.shd), (vec![Some(1), Some(0)], 2));
        assert!((r.f1 - 0.75).abs() < 1e-12 && (r.iou - 0.6).abs() < 1e-12 && (r.precision - 0.75).abs() < 1e-12);
    }

    #[test]
    fn auroc_by_hand() {
        assert_eq!(auroc(&[true, true, false, false], &[0.9, 0.8, 0.2, 0.1]), 1.0);
        assert_eq!(auroc(&[true, false, true, false], &[0.5, 0.5, 0.5, 0.5]), 0.5);
        assert_eq!(auroc(&[true, false, false], &[0.5, 0.9, 0.1]), 0.5);
    }
}
