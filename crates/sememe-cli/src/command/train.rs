//! `sememe train RECIPE` or `--config FILE`: one run from data to report.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use sememe_run::generative;
use sememe_run::generative::Config;
use sememe_run::generative::scores_table;
use sememe_run::start::Outcome;
use serde_json::json;

use super::{Context, INTERRUPTED, file_link};
use crate::recipe;

/// Arguments of `train`.
#[derive(Args)]
pub struct Train {
    /// Name of a recipe (`sememe list recipes`).
    #[arg(conflicts_with = "config", required_unless_present = "config")]
    recipe: Option<String>,
    /// A config of your own (TOML).
    #[arg(long)]
    config: Option<PathBuf>,
    /// Override a key: `--set model.dz=8 --set penalty.0.weight=0.1`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder of the run [default: runs/NAME].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Go on from the last checkpoint; ends at the same bits as an uninterrupted run.
    #[arg(long)]
    resume: bool,
    /// Replace the run that the folder holds.
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
}

impl Train {
    /// Trains, evaluates, and prints the scores.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let (name, config) = match (&self.recipe, &self.config) {
            (Some(name), _) => (name.clone(), recipe::config(name, &self.set)?),
            (None, Some(path)) => {
                let name = path.file_stem().map_or_else(|| "run".into(), |stem| stem.to_string_lossy().into_owned());
                (name, Config::read(path, &self.set)?)
            }
            (None, None) => bail!("give a recipe or --config FILE"),
        };
        let out = self.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(&name));
        match generative::train(&config, &out, &context.run_options(self.resume, self.overwrite, self.recipe.clone()))? {
            Outcome::Finished(evaluation) => {
                let text = format!("{}\nreport: {}", scores_table(&evaluation).to_text(), file_link(&out.join("report.html")));
                context.result(&text, &json!({"run": out, "scores": evaluation.scores}));
                Ok(ExitCode::SUCCESS)
            }
            Outcome::Interrupted { step } => {
                context
                    .result(&format!("interrupted after {step} steps; add --resume to go on"), &json!({"run": out, "interrupted": step}));
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    }
}
