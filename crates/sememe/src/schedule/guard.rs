//! The guard: it backs a penalty's weight off when reconstruction worsens by a set fraction, and lets it return.
//!
//! With r̄ the running mean of the reconstruction loss and r* its lowest value
//! so far, the guard multiplies the weight by `back_off` whenever
//! `r̄ > (1 + fraction) · r*`, at most once in `patience` steps; when r̄ is
//! below that line for `patience` steps it gives one factor back, up to 1.

use serde::{Deserialize, Serialize};

use super::ScheduleError;

/// Config of the guard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guard {
    /// How much worse than its best reconstruction may become: 0.5 is half as much again.
    pub fraction: f64,
    /// The factor by which the weight is cut, in (0, 1).
    pub back_off: f64,
    /// Steps between two changes.
    pub patience: usize,
    /// Weight of the past in the running mean, in [0, 1).
    pub smoothing: f64,
}

impl Default for Guard {
    fn default() -> Self {
        Self { fraction: 0.5, back_off: 0.5, patience: 100, smoothing: 0.98 }
    }
}

/// What the guard remembers; part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardState {
    /// The factor on the weight, in (0, 1].
    pub factor: f64,
    /// r̄, once there has been a step.
    mean: Option<f64>,
    /// r*.
    best: f64,
    /// Steps since the last change.
    quiet: usize,
}

impl Default for GuardState {
    fn default() -> Self {
        Self { factor: 1.0, mean: None, best: f64::MAX, quiet: 0 }
    }
}

impl Guard {
    /// Refuses numbers that make no sense.
    pub fn check(&self) -> Result<(), ScheduleError> {
        let error = |key, got, expected| Err(ScheduleError { schedule: "guard", key, got, expected });
        if !(self.fraction.is_finite() && self.fraction > 0.0) {
            return error("fraction", self.fraction, "give a finite number above 0");
        }
        if !(self.back_off > 0.0 && self.back_off < 1.0) {
            return error("back_off", self.back_off, "give a factor above 0 and below 1");
        }
        if !(0.0..1.0).contains(&self.smoothing) {
            return error("smoothing", self.smoothing, "give a number from 0 to below 1");
        }
        if self.patience == 0 {
            return error("patience", 0.0, "give at least 1 step");
        }
        Ok(())
    }

    /// Takes one step's reconstruction loss; returns the new factor when it changed.
    pub fn observe(&self, state: &mut GuardState, reconstruction: f64) -> Option<f64> {
        let mean = state.mean.map_or(reconstruction, |mean| self.smoothing * mean + (1.0 - self.smoothing) * reconstruction);
        state.mean = Some(mean);
        state.best = state.best.min(mean);
        state.quiet += 1;
        if state.quiet < self.patience {
            return None;
        }
        if mean > (1.0 + self.fraction) * state.best {
            state.factor *= self.back_off;
        } else if state.factor < 1.0 {
            state.factor = (state.factor / self.back_off).min(1.0);
        } else {
            return None;
        }
        state.quiet = 0;
        Some(state.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backs_off_and_returns() {
        let guard = Guard { fraction: 0.5, back_off: 0.5, patience: 2, smoothing: 0.0 };
        let mut state = GuardState::default();
        let factors: Vec<f64> = [1.0, 1.0, 1.4, 1.6, 1.6, 1.6, 1.2, 1.2, 1.2, 1.2]
            .into_iter()
            .map(|r| {
                guard.observe(&mut state, r);
                state.factor
            })
            .collect();
        assert_eq!(factors, [1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.5, 0.5, 1.0]);
    }
}
