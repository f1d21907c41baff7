//! Nonlinear dictionary learning: generators whose hidden factors can be identified, and the penalties that identify them.
//!
//! - [`jacobian`]: layers that push tangents forward beside their values.
//! - [`penalty`]: numbers that make the Jacobian sparse, one file each.
//! - [`schedule`]: how weights and learning rates change, and the guard.
//! - [`generative`]: models with an encoder and a generator.
//! - [`train`]: the loop, which knows no file, clock or printer.

pub mod generative;
pub mod jacobian;
pub mod penalty;
pub mod schedule;
pub mod train;

pub use sememe_kernels::Activation;
