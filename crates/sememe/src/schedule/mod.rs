//! How a weight or a learning rate changes over training, and the guard that backs a weight off.

mod guard;
mod learning_rate;
mod ramp;

use thiserror::Error;

pub use guard::{Guard, GuardState};
pub use learning_rate::{Decay, LearningRate};
pub use ramp::{Ramp, Shape};

/// A schedule that makes no sense.
#[derive(Debug, Error, PartialEq)]
#[error("{schedule}: `{key}` is {got}; {expected}")]
pub struct ScheduleError {
    /// Which schedule.
    pub schedule: &'static str,
    /// The key at fault.
    pub key: &'static str,
    /// Its value.
    pub got: f64,
    /// What it may be.
    pub expected: &'static str,
}

/// Refuses a number outside [0, 1].
fn fraction(schedule: &'static str, key: &'static str, value: f64) -> Result<(), ScheduleError> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(ScheduleError { schedule, key, got: value, expected: "give a fraction of the steps, from 0 to 1" })
    }
}
