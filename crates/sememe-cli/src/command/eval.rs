//! `sememe eval RUN`: the scores of a trained run, computed again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use sememe_run::folder::RunFolder;
use sememe_run::report::Table;
use sememe_run::{config, dictionary, generative, language_model, pair};
use serde_json::{Value, json};

use super::Context;
use crate::recipe::Kind;

/// Arguments of `eval`.
#[derive(Args)]
pub struct Eval {
    /// Folder of the run.
    run: PathBuf,
    /// Language model for cross-entropy with the dictionary in place [default: the one of its activations].
    #[arg(long)]
    model: Option<String>,
}

/// Evaluates the run in a folder again, of whatever kind, and writes its report.
pub fn evaluate_again(run: &Path, model: Option<&str>) -> Result<(Table, Value)> {
    let table = config::table(&RunFolder::read(run)?.read_config()?, &run.join("config.toml").display().to_string())?;
    let kind = Kind::of(&table);
    if kind == Kind::Dictionary {
        let evaluation = dictionary::evaluate_again(run, model)?;
        let scores = json!({"reconstruction": evaluation.scores, "nulls": evaluation.nulls, "language": evaluation.language});
        return Ok((dictionary::scores_table(&evaluation), scores));
    }
    if kind == Kind::Pair {
        let evaluation = pair::evaluate_again(run, model)?;
        let scores = json!({"input": evaluation.input.scores, "output": evaluation.output.scores, "jacobian": evaluation.jacobian});
        return Ok((pair::scores_table(&evaluation), scores));
    }
    if model.is_some() {
        bail!("--model goes with the run of a dictionary, which {} is not", run.display());
    }
    if kind == Kind::LanguageModel {
        let evaluation = language_model::evaluate_again(run)?;
        return Ok((evaluation.table(), json!(evaluation.lines)));
    }
    let evaluation = generative::evaluate_again(run)?;
    Ok((generative::scores_table(&evaluation), json!(evaluation.scores)))
}

impl Eval {
    /// Evaluates and prints.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let (table, scores) = evaluate_again(&self.run, self.model.as_deref())?;
        context.result(&table.to_text(), &json!({"run": self.run, "scores": scores}));
        Ok(ExitCode::SUCCESS)
    }
}
