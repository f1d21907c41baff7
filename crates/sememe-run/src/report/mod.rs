//! The report: one self-contained HTML page with plots, pictures and tables, that opens without a network.

mod page;
mod picture;
mod plot;

pub(crate) use page::escape;
pub use page::{Block, MarkedText, Page, Section, Table};
pub use picture::image_grid;
pub use plot::{Curve, Series, bars, comparison, curves, heatmap, loss_plots};
