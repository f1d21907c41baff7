//! Scores of a dictionary, each named by its definition, accumulated in double precision over a stream of batches.
//!
//! A score that depends on a window of tokens or on a baseline says so in its
//! name: NMSE against the mean and NMSE0 against zero, dead latents in as many
//! tokens as were seen. Beside them stand the nulls: what k principal
//! components, and k random directions, explain of the same tokens.

mod null;
mod reconstruction;
mod recovered;
mod similarity;

pub use null::{Covariance, Nulls, linear_dictionary};
pub use reconstruction::{FrequencyBin, Reconstruction, Scores};
pub use recovered::{cross_entropy_recovered, divergence_recovered};
pub use similarity::{Similarity, collinearity, similarity};
