//! `sememe compare RECIPE`: several dictionaries, or pairs, on the same activations, from the model to one table.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use sememe_run::dictionary::{ComparisonConfig, compare, table};
use sememe_run::{config, pair};
use serde_json::json;

use super::{Context, INTERRUPTED, file_link};
use crate::recipe::{self, Kind};

/// Arguments of `compare`.
#[derive(Args)]
pub struct Compare {
    /// Name of a recipe that is a comparison (`sememe list recipes`).
    #[arg(conflicts_with = "config", required_unless_present = "config")]
    recipe: Option<String>,
    /// A comparison of your own (TOML).
    #[arg(long)]
    config: Option<PathBuf>,
    /// Override a key: `--set harvest.tokens=500000 --set run.0.dictionary.k=64`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A folder of activations, harvested before or to be harvested now [default: OUT/activations].
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder of the runs [default: runs/NAME]; what is in it already is used.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Harvest and train anew.
    #[arg(long)]
    overwrite: bool,
}

impl Compare {
    /// Harvests, trains, scores and prints the table.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let (name, text, origin) = match (&self.recipe, &self.config) {
            (Some(name), _) => {
                let recipe = recipe::find(name)?;
                if recipe.kind().command() != "compare" {
                    bail!("recipe `{name}` is no comparison; use `sememe {} {name}`", recipe.kind().command());
                }
                (name.clone(), recipe.text.to_string(), format!("recipe {name}"))
            }
            (None, Some(path)) => {
                let name = path.file_stem().map_or_else(|| "comparison".into(), |stem| stem.to_string_lossy().into_owned());
                let text = std::fs::read_to_string(path).map_err(|source| config::ConfigError::Read { path: path.clone(), source })?;
                (name, text, path.display().to_string())
            }
            (None, None) => bail!("give a recipe or --config FILE"),
        };
        let out = self.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(&name));
        let options = context.run_options(false, self.overwrite, self.recipe.clone());
        let done = match Kind::of(&config::table(&text, &origin)?) {
            Kind::PairComparison => {
                let comparison: pair::PairComparisonConfig = config::parse(&text, &origin, &self.set)?;
                pair::compare(&comparison, &out, self.data.as_deref(), &options)?
                    .map(|done| (pair::table(&done), json!(done.lines), done.report))
            }
            _ => {
                let comparison: ComparisonConfig = config::parse(&text, &origin, &self.set)?;
                compare(&comparison, &out, self.data.as_deref(), &options)?.map(|done| (table(&done), json!(done.lines), done.report))
            }
        };
        match done {
            Some((table, lines, report)) => {
                let text = format!("{}\nreport: {}", table.to_text(), file_link(&report));
                context.result(&text, &json!({"runs": out, "lines": lines}));
                Ok(ExitCode::SUCCESS)
            }
            None => {
                context.result("interrupted; the same command goes on", &json!({"runs": out, "interrupted": true}));
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    }
}
