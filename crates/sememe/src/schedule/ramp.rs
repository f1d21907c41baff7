//! The ramp of a penalty's weight: nothing until reconstruction has settled, then a rise to the full weight.
//!
//! With progress `t` in [0, 1]: factor 0 while `t < start`, then over
//! `length` a rise, then 1. Linear: `u = (t − start)/length`. Geometric:
//! `from^(1−u)`, which spends as long on each order of magnitude.

use serde::{Deserialize, Serialize};

use super::{ScheduleError, fraction};

/// How the factor rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// In proportion to the steps.
    #[default]
    Linear,
    /// By equal factors, from `geometric_from`.
    Geometric,
}

/// The factor of a weight over training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ramp {
    /// Fraction of the steps before the penalty begins.
    pub start_fraction: f64,
    /// Fraction of the steps over which it rises to its weight.
    pub length_fraction: f64,
    /// How it rises.
    pub shape: Shape,
    /// The factor at which a geometric rise begins, in (0, 1).
    pub geometric_from: f64,
}

impl Default for Ramp {
    fn default() -> Self {
        Self { start_fraction: 0.0, length_fraction: 0.2, shape: Shape::Linear, geometric_from: 1e-4 }
    }
}

impl Ramp {
    /// Refuses fractions outside [0, 1].
    pub fn check(&self) -> Result<(), ScheduleError> {
        fraction("ramp", "start_fraction", self.start_fraction)?;
        fraction("ramp", "length_fraction", self.length_fraction)?;
        if self.geometric_from > 0.0 && self.geometric_from < 1.0 {
            Ok(())
        } else {
            Err(ScheduleError {
                schedule: "ramp",
                key: "geometric_from",
                got: self.geometric_from,
                expected: "give a factor above 0 and below 1",
            })
        }
    }

    /// The factor at `progress` in [0, 1].
    pub fn factor(&self, progress: f64) -> f64 {
        let past = progress - self.start_fraction;
        if past < 0.0 {
            return 0.0;
        }
        if past >= self.length_fraction {
            return 1.0;
        }
        let u = past / self.length_fraction;
        match self.shape {
            Shape::Linear => u,
            Shape::Geometric => self.geometric_from.powf(1.0 - u),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_by_hand() {
        let ramp = Ramp { start_fraction: 0.2, length_fraction: 0.4, ..Ramp::default() };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} against {b}");
        for (progress, expected) in [(0.0, 0.0), (0.2, 0.0), (0.4, 0.5), (0.6, 1.0), (1.0, 1.0)] {
            close(ramp.factor(progress), expected);
        }
        let geometric = Ramp { shape: Shape::Geometric, ..ramp };
        for (progress, expected) in [(0.1, 0.0), (0.2, 1e-4), (0.4, 1e-2), (0.6, 1.0)] {
            close(geometric.factor(progress), expected);
        }
        assert_eq!(Ramp { length_fraction: 0.0, ..Ramp::default() }.factor(0.0), 1.0);
    }
}
