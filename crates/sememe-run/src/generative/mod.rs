//! Runs of generative models on data of known truth or on arrays of the user's own.

mod config;
mod data;
mod evaluate;
mod page;
mod run;

pub use config::{Config, DataConfig, EvaluationConfig};
pub use data::{Dataset, to_matrix, to_tensor};
pub use evaluate::{Evaluation, GeneratorCheck, ScoreLine};
pub use page::{atoms_section, run_sections, scores_table, write_run_report};
pub use run::{evaluate_again, train};
