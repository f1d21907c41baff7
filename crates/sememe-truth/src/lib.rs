//! Known truth in plain numbers: worlds whose factors are known, the structure of their Jacobian, and the metrics that compare what was learned with it.
//!
//! This is the lowest floor: no tensors, no disk, no clock. Everything is `f64`
//! in a [`Matrix`] whose rows are samples.
//!
//! - [`world`]: data with known factors (`latents [N, dz]` → `observed [N, dx]`).
//! - [`structure`]: supports, index sets, Venn atoms, which latents are identifiable and why.
//! - [`metric`]: MCC, block R², structure recovery, and the nulls that each is read against.

pub mod catalogue;
pub mod metric;
pub mod random;
pub mod structure;
pub mod world;

/// A dense `f64` matrix; in data, rows are samples and columns are variables.
pub type Matrix = faer::Mat<f64>;
