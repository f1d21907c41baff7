//! What the Jacobian of a trained pair is like: how many entries matter, whether they predict ablations, and what the functions look like.

mod ablation;
mod entries;
mod shape;

pub use ablation::{Ablation, ablations};
pub use entries::{Entries, EntryScores, THRESHOLDS};
pub use shape::{Shape, ShapeCounts, shape_of, shapes};
