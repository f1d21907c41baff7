//! The second half of the quickstart: dictionaries of the pocket model's activations, harvested and trained here.

use std::path::Path;

use anyhow::Result;
use sememe_run::config;
use sememe_run::dictionary::{ComparisonConfig, compare, compared_sections, table};
use serde_json::json;

use super::Part;
use crate::command::Context;
use crate::{pocket, recipe};

/// Harvests and trains; `None` when interrupted.
pub(super) fn run(out: &Path, context: &Context) -> Result<Option<Part>> {
    let model = out.join("pocket");
    pocket::write(&model)?;
    let set = [
        format!("harvest.model={:?}", model.display().to_string()),
        format!("harvest.text=[{:?}]", model.join("text").display().to_string()),
    ];
    let config: ComparisonConfig = config::parse(recipe::find("pocket-dictionaries")?.text, "recipe pocket-dictionaries", &set)?;
    let options = context.run_options(false, true, None);
    let Some(done) = compare(&config, &out.join("dictionaries"), None, &options)? else { return Ok(None) };
    let table = table(&done);
    let text = format!("{}\n\n{}\n", config.about, table.to_text());
    let figures = done
        .lines
        .iter()
        .map(|line| json!({"dictionary": line.name, "scores": line.evaluation.scores, "language": line.evaluation.language}));
    let figures = figures.collect();
    let mut sections = compared_sections(&done)?;
    let details = sections.split_off(1);
    Ok(Some(Part { text, results: sections, details, figures }))
}
