//! Training: the loop, its optimiser and penalty terms, and what it asks of a model and tells its observers.
//!
//! The loop knows no file, clock or printer: it asks the model for named
//! losses, adds the penalties, steps, and emits events.

mod adam;
mod fit;
mod gradients;
mod objective;
mod realign;
mod starts;
mod term;

pub use adam::{Adam, AdamConfig};
pub use fit::{Event, Fit, Flow, Observer, Plan, TrainError};
pub use gradients::{NamedTensors, gradients_of, parameters, replace_parameters};
pub use objective::{Draft, Loss, Objective, StepContext};
pub use realign::{LatentBasis, Realign, RealignError};
pub use starts::{OBJECTIVE, Starts, StartsError};
pub use term::{Term, TermError};

#[cfg(test)]
mod tests;
