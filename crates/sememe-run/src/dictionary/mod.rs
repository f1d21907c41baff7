//! Runs of dictionaries on a language model's activations: from shards, or live from the model.

mod compare;
mod config;
mod evaluate;
mod language;
mod latents;
mod page;
mod run;
mod source;

pub use compare::{Comparison, ComparisonConfig, compare, compared_sections, table};
pub use config::{Config, DataConfig, EvaluationConfig};
pub use evaluate::{Evaluation, Training, scores_table};
pub(crate) use evaluate::{HeldOut, evaluate};
pub use language::{Judge, LanguageScores};
pub use latents::{ContextView, LatentView, PromotedToken};
pub(crate) use page::source_table;
pub use page::{dictionary_sections, write_page};
pub use run::{evaluate_again, train};
pub(crate) use source::{Live, Source, held_out};
