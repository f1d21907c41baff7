//! `sememe convert IN --to FORMAT -o OUT`: a dictionary in the format of another tool.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use burn::tensor::Device;
use clap::Args;
use sememe_run::interop::{Format, convert};
use serde_json::json;

use super::{Context, file_link};

/// Arguments of `convert`.
#[derive(Args)]
pub struct Convert {
    /// The dictionary: a SAELens, dictionary_learning or sparsify folder, Gemma Scope's params.npz, or a finished run; its files show which.
    input: PathBuf,
    /// The format to write: saelens, dictionary-learning, sparsify, gemma-scope or sememe.
    #[arg(long)]
    to: String,
    /// The folder to write, which must not exist yet.
    #[arg(short, long)]
    out: PathBuf,
}

impl Convert {
    /// Converts.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let Some(to) = Format::from_tag(&self.to) else {
            bail!("--to is `{}`; known are {}", self.to, Format::ALL.map(Format::tag).join(", "));
        };
        let read = convert(&self.input, to, &self.out, &Device::flex())?;
        let (kind, n, widths) = (read.dictionary.kind.tag(), read.dictionary.n(), read.dictionary.widths());
        let text = format!(
            "{} ({} {kind}, {n} latents, widths {} and {}) as {}: {}",
            self.input.display(),
            read.format.tag(),
            widths.input,
            widths.output,
            to.tag(),
            file_link(&self.out)
        );
        let object = json!({
            "input": self.input, "from": read.format.tag(), "kind": kind, "n": n, "d_in": widths.input, "d_out": widths.output,
            "to": to.tag(), "out": self.out,
        });
        context.result(&text, &object);
        Ok(ExitCode::SUCCESS)
    }
}
