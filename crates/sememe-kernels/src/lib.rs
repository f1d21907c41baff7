//! Fused tensor operations that Burn lacks, each beside the ordinary-tensor version that is its oracle and its path on other devices.
//!
//! A fused operation runs on the CPU device (`Device::flex()`, with or without
//! autodiff); on every other device the same function falls back to ordinary
//! tensor operations with the same result.

mod activation;
mod adam;
mod block;
mod dispatch;
pub mod forward;
mod lanes;
mod retain;
mod row_norms;
mod select;
mod sparse;
mod tangents;

pub use activation::Activation;
pub use adam::{AdamMoments, AdamStep, adam_step, squared_norm};
pub use block::{block_starts, jacobian_blocks, jacobian_blocks_plain};
pub use retain::Retaining;
pub use row_norms::row_norms;
pub use select::{Choice, Precision, encode_top, keep_largest};
pub use sparse::{Pattern, sparse_decode, sparse_encode, sparse_spread};
pub use tangents::{activate, scale_tangents};
