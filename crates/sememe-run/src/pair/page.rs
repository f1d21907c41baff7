//! The page of a pair's run: the Jacobian first, then both dictionaries.

use std::path::PathBuf;

use serde_json::Value;

use super::config::{Config, Side};
use super::evaluate::{Evaluation, jacobian_table};
use crate::activations::Activations;
use crate::dictionary::{dictionary_sections, source_table};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::report::{Block, Page, Section, loss_plots};
use crate::start::label_of;

/// All sections on one pair.
pub fn pair_sections(name: &str, lines: &[Value], evaluation: &Evaluation) -> Vec<Section> {
    let mut sections = vec![
        Section { heading: format!("{name}: Jacobian"), blocks: vec![Block::Table(jacobian_table(&evaluation.jacobian))] },
        Section {
            heading: format!("{name}: graph of latents"),
            blocks: evaluation.graph.blocks(["latents that enter", "latents that leave"]),
        },
        Section { heading: format!("{name}: training"), blocks: vec![Block::Row(loss_plots(lines))] },
    ];
    for side in Side::BOTH {
        sections.extend(dictionary_sections(&format!("{name}, {}", side.name()), &[], evaluation.side(side)));
    }
    sections
}

/// Writes `report.html` of a single run.
///
/// # Errors
/// A folder that cannot be read or written.
pub fn write_page(folder: &RunFolder, config: &Config, source: &Activations, evaluation: &Evaluation) -> Result<PathBuf, RunError> {
    let name = label_of(folder.path());
    let mut sections = pair_sections("pair", &folder.metrics()?, evaluation);
    sections.push(Section {
        heading: "What it was trained on".into(),
        blocks: vec![Block::Table(source_table(source)), Block::Details { summary: "config.toml".into(), text: config.to_toml()? }],
    });
    let subtitle = if config.about.is_empty() { "A pair of dictionaries around a layer.".into() } else { config.about.clone() };
    Ok(folder.write_report(&Page { title: name, subtitle, sections }.to_html())?)
}
