//! The report: one self-contained HTML page with plots, pictures and tables, that opens without a network.

mod page;
mod picture;
mod plot;
mod run_page;

pub use page::{Block, Page, Section, Table};
pub use picture::image_grid;
pub use plot::{Curve, Series, comparison, curves, heatmap};
pub use run_page::{atoms_section, run_sections, scores_table, write_run_report};
