//! `sememe graph RUN`: which latents that enter a layer act on which that leave it, as JSON, GraphML or a drawing.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use sememe_run::pair::{GraphScope, graph_of, hooks_of_run};
use sememe_run::report::Table;
use serde_json::json;

use super::{Context, file_link};

/// Arguments of `graph`.
#[derive(Args)]
pub struct GraphCommand {
    /// Folder of a pair's run.
    run: PathBuf,
    /// A text of your own; without it, held-out tokens on average.
    #[arg(long)]
    text: Option<String>,
    /// Of the text, the token at this position alone (from 0, a beginning-of-text token included).
    #[arg(long, requires = "text")]
    token: Option<usize>,
    /// Held-out tokens to average over, without --text.
    #[arg(long, default_value_t = 4096)]
    tokens: usize,
    /// Edges, the strongest.
    #[arg(long, default_value_t = 100)]
    edges: usize,
    /// Where to find the language model [default: where its activations were made].
    #[arg(long)]
    model: Option<String>,
    /// Write to this file: .json, .graphml or .svg.
    #[arg(short, long)]
    out: Option<PathBuf>,
}

/// Edges that are printed.
const SHOWN: usize = 20;

impl GraphCommand {
    /// Computes, writes and prints.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let format = self.out.as_ref().map(|out| out.extension().and_then(|end| end.to_str()).unwrap_or_default().to_lowercase());
        if let (Some(format), Some(out)) = (&format, &self.out)
            && !["json", "graphml", "svg"].contains(&format.as_str())
        {
            bail!("{}: unknown kind of file; give a name that ends in .json, .graphml or .svg", out.display());
        }
        let scope = match &self.text {
            Some(text) => GraphScope::Text(text.clone(), self.token),
            None => GraphScope::Corpus(self.tokens),
        };
        let graph = graph_of(&self.run, &scope, self.edges, self.model.as_deref())?;
        let hooks = hooks_of_run(&self.run)?;
        let mut written = String::new();
        if let (Some(format), Some(out)) = (&format, &self.out) {
            let names = hooks.map(|hook| hook.to_string());
            let text = match format.as_str() {
                "json" => serde_json::to_string_pretty(&json!({"hooks": names, "graph": graph}))?,
                "graphml" => graph.to_graphml(&hooks),
                _ => graph.to_svg([&names[0], &names[1]]),
            };
            sememe_run::atomic::write(out, text.as_bytes()).map_err(|error| anyhow::anyhow!("{}: {error}", out.display()))?;
            written = format!("\nwritten: {}", file_link(out));
        }
        let rows = graph.edges.iter().take(SHOWN).map(|edge| {
            vec![
                edge.input.to_string(),
                edge.output.to_string(),
                format!("{:.5}", edge.strength),
                format!("{:+.4}", edge.mean),
                edge.count.to_string(),
            ]
        });
        let table = Table {
            head: ["enters", "leaves", "mean |J|", "mean J where both are active", "tokens"].map(String::from).to_vec(),
            rows: rows.collect(),
            note: format!("{}: {} edges, the strongest of {}.", graph.scope, graph.edges.len(), graph.edges_in_all),
        };
        context.result(&format!("{}{written}", table.to_text()), &json!({"graph": graph}));
        Ok(ExitCode::SUCCESS)
    }
}
