//! Metrics: how much of a known truth was recovered, each score beside its null.
//!
//! To add a metric: its own file that implements [`Metric`], and one line in [`MetricKind`].

mod assignment;
mod correlation;
mod interval;
mod mcc;
mod null;
mod r2;
pub mod regress;
mod structure_recovery;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Matrix;
use crate::structure::Support;

pub use assignment::largest_assignment;
pub use correlation::Correlation;
pub use interval::{OverSeeds, bootstrap};
pub use mcc::{Matching, Mcc};
pub use null::{Null, permutation, random_rotation};
pub use r2::{SetScores, r_squared, set_scores};
pub use structure_recovery::{Recovery, recovery};

/// Why a metric has no score.
#[derive(Debug, Error, PartialEq)]
pub enum MetricError {
    /// The evidence lacks something.
    #[error("needs {what}")]
    Missing {
        /// What.
        what: &'static str,
    },
    /// Sizes that do not match.
    #[error("{what}: expected {expected}, got {got}")]
    Shape {
        /// Of what.
        what: &'static str,
        /// Expected.
        expected: usize,
        /// Got.
        got: usize,
    },
    /// NaN or infinity.
    #[error("{what} has {value} at sample {row}, latent {column}")]
    NotFinite {
        /// Of what.
        what: &'static str,
        /// From 0.
        row: usize,
        /// From 0.
        column: usize,
        /// The value.
        value: f64,
    },
    /// A structure that cannot be built from the evidence.
    #[error("{0}")]
    Structure(String),
}

/// What is known of the truth and of the estimate, on the same samples.
pub struct Evidence<'a> {
    /// True latents `[N, dz]`.
    pub latents: &'a Matrix,
    /// Estimated latents (mean codes) `[N, dẑ]`.
    pub codes: &'a Matrix,
    /// True dependency structure `[dx, dz]`.
    pub support: Option<&'a Support>,
    /// The model's mean |Jacobian| times std(z_j), `[dx, dẑ]`.
    pub dependency: Option<&'a Matrix>,
    /// Seed of nulls and splits.
    pub seed: u64,
}

impl Evidence<'_> {
    /// Refuses samples that do not match or are not finite.
    pub fn check(&self) -> Result<(), MetricError> {
        if self.latents.nrows() != self.codes.nrows() {
            return Err(MetricError::Shape { what: "samples of the estimate", expected: self.latents.nrows(), got: self.codes.nrows() });
        }
        for (what, matrix) in [("the true latents", self.latents), ("the estimated latents", self.codes)] {
            if matrix.nrows() < 4 || matrix.ncols() == 0 {
                return Err(MetricError::Missing { what: "at least 4 samples and 1 latent" });
            }
            for column in 0..matrix.ncols() {
                if let Some((row, &value)) = matrix.col(column).iter().enumerate().find(|(_, value)| !value.is_finite()) {
                    return Err(MetricError::NotFinite { what, row, column, value });
                }
            }
        }
        Ok(())
    }
}

/// A score beside what chance gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The score.
    pub value: f64,
    /// The same score under chance.
    pub null: Option<Null>,
    /// A 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// Whether more is better.
    pub higher_is_better: bool,
}

/// A number that says how much of the truth was recovered.
pub trait Metric {
    /// The score of the evidence.
    fn score(&self, evidence: &Evidence<'_>) -> Result<Score, MetricError>;
}

crate::catalogue! {
    /// Every metric, by the tag that configs use.
    pub enum MetricKind: Metric {
        "mcc-pearson" => MccPearson(mcc::MccPearson),
        "mcc-spearman" => MccSpearman(mcc::MccSpearman),
        "r2-kernel-ridge" => R2KernelRidge(r2::R2KernelRidge),
        "r2-boosted-trees" => R2BoostedTrees(r2::R2BoostedTrees),
        "r2-linear" => R2Linear(r2::R2Linear),
        "structure-f1" => StructureF1(structure_recovery::StructureF1),
        "structure-iou" => StructureIou(structure_recovery::StructureIou),
        "structure-shd" => StructureShd(structure_recovery::StructureShd),
        "structure-auroc" => StructureAuroc(structure_recovery::StructureAuroc),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;
    use crate::structure::support;
    use crate::world::LatentDistribution;

    struct Case {
        latents: Matrix,
        codes: Matrix,
        truth: Support,
        dependency: Matrix,
    }

    impl Case {
        fn at_the_truth() -> Self {
            let truth = support(&[&[1, 1, 0, 0], &[0, 1, 1, 0], &[0, 0, 1, 1], &[1, 0, 0, 1], &[1, 0, 1, 0]]);
            let latents = LatentDistribution::Uniform.draw(1500, 4, &mut stream(4, "z"));
            Self { codes: latents.clone(), dependency: truth.to_matrix(), latents, truth }
        }

        fn score(&self, kind: &MetricKind) -> Score {
            let evidence = Evidence {
                latents: &self.latents,
                codes: &self.codes,
                support: Some(&self.truth),
                dependency: Some(&self.dependency),
                seed: 5,
            };
            match kind.member().score(&evidence) {
                Ok(score) => score,
                Err(error) => panic!("{}: {error}", kind.tag()),
            }
        }
    }

    #[test]
    fn perfect_at_the_truth_and_unmoved_by_order_sign_and_scale() {
        let truth = Case::at_the_truth();
        let order = [3, 1, 0, 2];
        let moved = Case {
            codes: Matrix::from_fn(1500, 4, |n, j| -5.0 * truth.latents[(n, order[j])] + 2.0),
            dependency: Matrix::from_fn(5, 4, |i, j| truth.dependency[(i, order[j])]),
            ..Case::at_the_truth()
        };
        for kind in MetricKind::defaults() {
            let (score, again, other) = (truth.score(&kind), truth.score(&kind), moved.score(&kind));
            assert_eq!(score, again, "{} differs between two calls", kind.tag());
            let perfect = if score.higher_is_better { score.value > 0.97 } else { score.value == 0.0 };
            assert!(perfect, "{} is {} at the truth", kind.tag(), score.value);
            assert!((score.value - other.value).abs() < 0.02, "{}: {} became {}", kind.tag(), score.value, other.value);
            let Some(null) = score.null else { panic!("{} has no null", kind.tag()) };
            assert!(if score.higher_is_better { null.mean < 0.85 } else { null.mean > 1.0 }, "{}: {null:?}", kind.tag());
        }
    }

    #[test]
    fn chance_on_unrelated_codes() {
        let case = Case { codes: LatentDistribution::Gaussian.draw(1500, 4, &mut stream(99, "other")), ..Case::at_the_truth() };
        for kind in MetricKind::defaults().into_iter().filter(|kind| !kind.tag().starts_with("structure")) {
            assert!(case.score(&kind).value < 0.08, "{}", kind.tag());
        }
    }

    #[test]
    fn constants_give_numbers_and_nan_gives_an_error() {
        let mut case = Case { codes: Matrix::zeros(1500, 4), dependency: Matrix::zeros(5, 4), ..Case::at_the_truth() };
        for kind in MetricKind::defaults() {
            assert!(case.score(&kind).value.is_finite(), "{}", kind.tag());
        }
        case.codes[(3, 1)] = f64::NAN;
        let evidence = Evidence { latents: &case.latents, codes: &case.codes, support: None, dependency: None, seed: 0 };
        for kind in MetricKind::defaults() {
            assert!(matches!(kind.member().score(&evidence), Err(MetricError::NotFinite { row: 3, column: 1, .. })), "{}", kind.tag());
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let case = Case::at_the_truth();
        let evidence = Evidence { latents: &case.latents, codes: &case.codes, support: None, dependency: None, seed: 0 };
        for kind in MetricKind::defaults().iter().filter(|kind| kind.tag().starts_with("structure")) {
            assert_eq!(kind.member().score(&evidence), Err(MetricError::Missing { what: "the true dependency structure" }));
        }
    }
}
