//! Runs of a pair of dictionaries around a layer, with a penalty on the Jacobian between their latents.

mod compare;
mod config;
mod evaluate;
mod graph;
mod layer;
mod open;
mod page;
mod run;
mod scope;

pub use compare::{PairComparison, PairComparisonConfig, compare, compared_sections, table};
pub use config::{Config, JacobianEvaluationConfig};
pub use evaluate::{Evaluation, JacobianScores, scores_table};
pub use graph::{Edge, Graph};
pub use layer::{attention_of, hooks_of, layer_between};
pub use open::hooks_of_run;
pub use page::{pair_sections, write_page};
pub use run::{evaluate_again, train};
pub use scope::{GraphScope, graph_of};
