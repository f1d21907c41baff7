//! Nonlinear dictionary learning: generators whose hidden factors can be identified, and the penalties that identify them.
//!
//! - [`jacobian`]: layers that push tangents forward beside their values.
//! - [`penalty`]: numbers that make the Jacobian sparse, one file each.

pub mod jacobian;
pub mod penalty;
