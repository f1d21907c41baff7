//! The learning rate over training: a linear warm-up, a plateau, and a decay to 0 at the end.

use serde::{Deserialize, Serialize};

use super::{ScheduleError, fraction};

/// How the rate falls at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// Half a cosine wave from 1 to 0.
    #[default]
    Cosine,
    /// A straight line from 1 to 0.
    Linear,
    /// No decay.
    None,
}

/// The learning rate as a function of progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearningRate {
    /// The rate of the plateau.
    pub peak: f64,
    /// Fraction of the steps over which the rate rises from 0.
    pub warm_up_fraction: f64,
    /// How the rate falls.
    pub decay: Decay,
    /// Fraction of the steps, at the end, over which the rate falls to 0.
    pub decay_fraction: f64,
}

impl Default for LearningRate {
    fn default() -> Self {
        Self { peak: 2e-3, warm_up_fraction: 0.02, decay: Decay::Cosine, decay_fraction: 0.5 }
    }
}

impl LearningRate {
    /// Refuses rates and fractions that make no sense.
    pub fn check(&self) -> Result<(), ScheduleError> {
        fraction("learning_rate", "warm_up_fraction", self.warm_up_fraction)?;
        fraction("learning_rate", "decay_fraction", self.decay_fraction)?;
        if self.peak.is_finite() && self.peak > 0.0 {
            Ok(())
        } else {
            Err(ScheduleError { schedule: "learning_rate", key: "peak", got: self.peak, expected: "give a finite number above 0" })
        }
    }

    /// The rate at step `step` (from 0) of `steps`.
    pub fn at(&self, step: usize, steps: usize) -> f64 {
        let total = steps.max(1) as f64;
        let rise = (self.warm_up_fraction * total).max(1.0);
        let warm = ((step + 1) as f64 / rise).min(1.0);
        let fall = self.decay_fraction * total;
        let left = if fall > 0.0 { ((total - step as f64) / fall).min(1.0) } else { 1.0 };
        let decayed = match self.decay {
            Decay::None => 1.0,
            Decay::Linear => left,
            Decay::Cosine => 0.5 * (1.0 - (std::f64::consts::PI * left).cos()),
        };
        self.peak * warm * decayed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_by_hand() {
        let rate = LearningRate { peak: 1.0, warm_up_fraction: 0.1, decay: Decay::Linear, decay_fraction: 0.5 };
        for (step, expected) in [(0, 0.1), (9, 1.0), (50, 1.0), (75, 0.5), (99, 0.02)] {
            assert!((rate.at(step, 100) - expected).abs() < 1e-12, "step {step}: {}", rate.at(step, 100));
        }
        let cosine = LearningRate { decay: Decay::Cosine, ..rate };
        assert!((cosine.at(75, 100) - 0.5).abs() < 1e-12);
    }
}
