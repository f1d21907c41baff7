//! The page of a run: how training went, what the model is worth on held-out text, and what it writes.

use std::path::PathBuf;

use serde_json::Value;

use super::config::Config;
use super::evaluate::Evaluation;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::report::{Block, Curve, Page, Section, Table, curves};
use crate::start::label_of;

impl Evaluation {
    /// Nats a token and a byte of each model, best first as they were computed.
    pub fn table(&self) -> Table {
        let rows = self
            .lines
            .iter()
            .map(|line| vec![line.model.clone(), format!("{:.3}", line.nats_per_token), format!("{:.3}", line.nats_per_byte)]);
        Table {
            head: ["model", "nats a token", "nats a byte"].map(String::from).to_vec(),
            rows: rows.collect(),
            note: format!(
                "On {} held-out documents ({} tokens, {} bytes), whose text was not trained on; lower is better.",
                self.corpus.held_out_documents, self.corpus.held_out_tokens, self.corpus.held_out_bytes
            ),
        }
    }
}

/// The training loss over the steps, with the held-out losses of the counting models as level lines.
fn loss_plot(lines: &[Value], evaluation: &Evaluation) -> Block {
    let mut names: Vec<&String> =
        lines.iter().filter_map(|line| line.get("losses")?.as_object()).flat_map(|losses| losses.keys()).collect();
    names.sort();
    names.dedup();
    let points = |name: &str| -> Vec<(f64, f64)> {
        lines.iter().filter_map(|line| Some((line.get("step")?.as_f64()?, line.get("losses")?.get(name)?.as_f64()?))).collect()
    };
    let mut drawn: Vec<Curve> = names.into_iter().map(|name| Curve { name: name.clone(), points: points(name) }).collect();
    let ends: Vec<f64> =
        drawn.iter().flat_map(|curve| [curve.points.first(), curve.points.last()]).flatten().map(|point| point.0).collect();
    let (first, last) = (ends.iter().copied().fold(f64::INFINITY, f64::min), ends.iter().copied().fold(0.0, f64::max));
    if first.is_finite() {
        let level = |y: f64| vec![(first, y), (last, y)];
        drawn.extend(
            evaluation.lines.iter().map(|line| Curve { name: format!("{}, held out", line.model), points: level(line.nats_per_token) }),
        );
    }
    curves("loss", "step", "nats a token", false, &drawn)
}

/// Writes `report.html`.
pub(super) fn write_report(folder: &RunFolder, config: &Config, evaluation: &Evaluation) -> Result<PathBuf, RunError> {
    let section = |heading: &str, blocks| Section { heading: heading.into(), blocks };
    let corpus = &evaluation.corpus;
    let speed = evaluation.seconds_per_step.map_or(String::new(), |seconds| {
        let tokens = (config.training.batch * config.transformer.context) as f64 / seconds;
        format!(" {:.0} ms a step, {tokens:.0} tokens a second.", seconds * 1e3)
    });
    let about = format!(
        "{} parameters, trained on {} documents ({} bytes, {} tokens) seen {:.1} times.{speed}",
        evaluation.parameters, corpus.documents, corpus.bytes, corpus.tokens, evaluation.epochs
    );
    let mut samples = vec![Block::Text(
        "How a held-out document begins, and how the model goes on: by the likeliest token each time, and by drawing (temperature 0.8)."
            .into(),
    )];
    for sample in &evaluation.samples {
        let rows = [("beginning", &sample.prompt), ("likeliest", &sample.greedy), ("drawn", &sample.drawn)];
        let rows = rows.map(|(name, text)| vec![name.to_string(), text.split_whitespace().collect::<Vec<_>>().join(" ")]);
        samples.push(Block::Table(Table { head: vec!["".into(), "text".into()], rows: rows.to_vec(), note: String::new() }));
    }
    let manifest = folder.manifest()?;
    let sections = vec![
        section("Training", vec![Block::Text(about), loss_plot(&folder.metrics()?, evaluation)]),
        section("Held-out text", vec![Block::Table(evaluation.table())]),
        section("Continuations", samples),
        section("Config", vec![Block::Details { summary: "the resolved config".into(), text: folder.read_config()? }]),
    ];
    let subtitle = format!("{} Seed {}, sememe {}, {}.", config.about, manifest.seed, manifest.sememe_version, manifest.command);
    Ok(folder.write_report(&Page { title: label_of(folder.path()), subtitle, sections }.to_html())?)
}
