//! `sememe eval RUN`: the scores of a trained run, computed again.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use sememe_run::generative;
use sememe_run::generative::scores_table;
use serde_json::json;

use super::Context;

/// Arguments of `eval`.
#[derive(Args)]
pub struct Eval {
    /// Folder of the run.
    run: PathBuf,
}

impl Eval {
    /// Evaluates and prints.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let evaluation = generative::evaluate_again(&self.run)?;
        context.result(&scores_table(&evaluation).to_text(), &json!({"run": self.run, "scores": evaluation.scores}));
        Ok(ExitCode::SUCCESS)
    }
}
