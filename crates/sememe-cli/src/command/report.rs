//! `sememe report RUN`: the run's page, written again from what the folder holds.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::{Context, file_link};

/// Arguments of `report`.
#[derive(Args)]
pub struct Report {
    /// Folder of the run.
    run: PathBuf,
}

impl Report {
    /// Writes the page.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        super::eval::evaluate_again(&self.run, None)?;
        let page = self.run.join("report.html");
        context.result(&format!("report: {}", file_link(&page)), &json!({"report": page}));
        Ok(ExitCode::SUCCESS)
    }
}
