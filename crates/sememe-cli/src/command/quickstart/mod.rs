//! `sememe quickstart`: known factors recovered or not, then dictionaries and pairs of a small language model; one report.

mod dictionaries;
mod factors;
mod pairs;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use sememe_run::report::{Page, Section};
use serde_json::{Value, json};

use super::{Context, INTERRUPTED, file_link};

/// Arguments of `quickstart`.
#[derive(Args)]
pub struct Quickstart {
    /// Folder of the runs and the report.
    #[arg(long, default_value = "runs/quickstart")]
    out: PathBuf,
}

/// What one part leaves.
#[derive(Default)]
struct Part {
    /// For the terminal.
    text: String,
    /// The tables of the page.
    results: Vec<Section>,
    /// What comes after all tables.
    details: Vec<Section>,
    /// For `--json`.
    figures: Vec<Value>,
}

impl Quickstart {
    /// Runs all parts, prints the tables and writes the report.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let started = Instant::now();
        let factors = factors::run(&self.out, context)?;
        let dictionaries = if factors.is_some() { dictionaries::run(&self.out, context)? } else { None };
        let pairs = if dictionaries.is_some() { pairs::run(&self.out, context)? } else { None };
        let (Some(factors), Some(dictionaries), Some(pairs)) = (factors, dictionaries, pairs) else {
            eprintln!("interrupted; run `sememe quickstart` again to start anew");
            return Ok(ExitCode::from(INTERRUPTED));
        };
        let page = Page {
            title: "Sememe quickstart".into(),
            subtitle: "The same variational autoencoder three times: without a penalty, with sparse latents, and with sparse dependencies (L1 and log of the decoder's Jacobian). Then dictionaries of a small language model's activations, and pairs of them around one of its layers, without and with a sparse Jacobian.".into(),
            sections: [factors.results, dictionaries.results, pairs.results, factors.details, dictionaries.details, pairs.details].concat(),
        };
        let report = self.out.join("report.html");
        sememe_run::atomic::write(&report, page.to_html().as_bytes())?;
        let seconds = started.elapsed().as_secs_f64();
        let text = format!("{}{}{}report: {}\n{seconds:.0} s in all\n", factors.text, dictionaries.text, pairs.text, file_link(&report));
        let runs = [factors.figures, dictionaries.figures, pairs.figures].concat();
        context.result(&text, &json!({"runs": runs, "report": report}));
        Ok(ExitCode::SUCCESS)
    }
}
