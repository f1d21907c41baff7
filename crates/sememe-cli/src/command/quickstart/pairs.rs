//! The third part of the quickstart: pairs of dictionaries around an MLP of the pocket model, without and with a sparse Jacobian.

use std::path::Path;

use anyhow::Result;
use sememe_run::config;
use sememe_run::pair::{PairComparisonConfig, compare, compared_sections, table};
use serde_json::json;

use super::Part;
use crate::command::Context;
use crate::recipe;

/// Harvests and trains; `None` when interrupted. The pocket model is there already.
pub(super) fn run(out: &Path, context: &Context) -> Result<Option<Part>> {
    let model = out.join("pocket");
    let set = [
        format!("harvest.model={:?}", model.display().to_string()),
        format!("harvest.text=[{:?}]", model.join("text").display().to_string()),
    ];
    let config: PairComparisonConfig = config::parse(recipe::find("pocket-pairs")?.text, "recipe pocket-pairs", &set)?;
    let options = context.run_options(false, true, None);
    let Some(done) = compare(&config, &out.join("pairs"), None, &options)? else { return Ok(None) };
    let text = format!("{}\n\n{}\n", config.about, table(&done).to_text());
    let figures = done.lines.iter().map(|line| {
        let evaluation = &line.evaluation;
        json!({"pair": line.name, "input": evaluation.input.scores, "output": evaluation.output.scores, "jacobian": evaluation.jacobian})
    });
    let figures = figures.collect();
    let mut sections = compared_sections(&done)?;
    let details = sections.split_off(1);
    Ok(Some(Part { text, results: sections, details, figures }))
}
