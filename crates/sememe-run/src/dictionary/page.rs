//! The page of a dictionary's run: scores, training, how often latents are active, and latents in their contexts.

use std::path::PathBuf;

use sememe::dictionary::metric::FrequencyBin;
use serde_json::Value;

use super::config::Config;
use super::evaluate::{Evaluation, scores_table};
use super::latents::{LatentView, PromotedToken};
use crate::activations::Activations;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::report::{Block, Curve, MarkedText, Page, Section, Table, bars, curves, loss_plots};
use crate::start::label_of;

fn frequencies(bins: &[FrequencyBin]) -> Block {
    let points = bins.iter().map(|bin| ((bin.log10_from + bin.log10_to) / 2.0, bin.latents as f64)).collect();
    bars("How often latents are active", "log₁₀ of the share of tokens", "latents", points)
}

fn listed(tokens: &[PromotedToken]) -> String {
    if tokens.is_empty() {
        return "–".into();
    }
    tokens.iter().map(|token| format!("“{}”", token.text.replace('\n', "⏎"))).collect::<Vec<_>>().join(" ")
}

fn latent_blocks(latent: &LatentView) -> Vec<Block> {
    let about = format!(
        "Latent {}: active at {:.3} % of tokens, mean {:.3} where active, at most {:.3}, {:.2} % of the dictionary's energy.",
        latent.latent,
        100.0 * latent.frequency,
        latent.mean_active,
        latent.largest,
        100.0 * latent.share
    );
    let lines = latent
        .contexts
        .iter()
        .map(|context| {
            let strength = |value: f32| if latent.largest > 0.0 { f64::from(value) / latent.largest } else { 0.0 };
            let largest = context.activations.iter().copied().fold(0.0, f32::max);
            MarkedText {
                label: format!("{largest:.2}"),
                pieces: context
                    .pieces
                    .iter()
                    .zip(&context.activations)
                    .map(|(piece, &value)| (piece.clone(), strength(value), value))
                    .collect(),
            }
        })
        .collect();
    let mut blocks = vec![Block::Heading(about), Block::Marked(lines)];
    if !latent.promoted.is_empty() {
        blocks.push(Block::Text(format!("Promotes {}. Suppresses {}.", listed(&latent.promoted), listed(&latent.suppressed))));
    }
    blocks
}

/// All sections on one dictionary.
pub fn dictionary_sections(name: &str, lines: &[Value], evaluation: &Evaluation) -> Vec<Section> {
    let section = |heading: String, blocks| Section { heading, blocks };
    let mut sections =
        vec![section(format!("{name}: scores"), vec![Block::Table(scores_table(evaluation)), frequencies(&evaluation.scores.frequencies)])];
    if !lines.is_empty() {
        sections.push(section(format!("{name}: training"), vec![Block::Row(loss_plots(lines))]));
    }
    for (group, title) in [("strongest", "strongest latents"), ("random", "random latents")] {
        let of_group: Vec<&LatentView> = evaluation.latents.iter().filter(|latent| latent.group == group).collect();
        if !of_group.is_empty() {
            let about = Block::Text(format!(
                "Held-out contexts with the largest activations; the darker, the closer to the latent's largest. {}",
                if group == "strongest" { "Strongest: by share of Σ z² ‖W_dec‖²." } else { "Random among those that are active." }
            ));
            let blocks = std::iter::once(about).chain(of_group.into_iter().flat_map(latent_blocks)).collect();
            sections.push(section(format!("{name}: {title}"), blocks));
        }
    }
    sections
}

/// What the activations are of.
pub(crate) fn source_table(source: &Activations) -> Table {
    let manifest = &source.manifest;
    let hooks: Vec<String> =
        manifest.hooks.iter().map(|info| format!("{} ({} wide, mean norm {:.1})", info.hook, info.width, info.mean_norm)).collect();
    let rows = [
        ("model", manifest.model.clone()),
        ("hooks", hooks.join(", ")),
        ("tokens to train on", manifest.train_tokens().to_string()),
        ("held-out tokens", manifest.test_tokens().to_string()),
        (
            "tokens left out",
            format!(
                "{} (first of a context: {}, special: {})",
                manifest.left_out.tokens, manifest.left_out.first, manifest.left_out.special
            ),
        ),
        ("context", format!("{} tokens at most", manifest.context_tokens)),
    ];
    Table {
        head: vec!["activations".into(), String::new()],
        rows: rows.map(|(key, value)| vec![key.into(), value]).into(),
        note: String::new(),
    }
}

/// Writes `report.html` of a single run.
///
/// # Errors
/// A folder that cannot be read or written.
pub fn write_page(folder: &RunFolder, config: &Config, source: &Activations, evaluation: &Evaluation) -> Result<PathBuf, RunError> {
    let name = label_of(folder.path());
    let mut sections = dictionary_sections(&name, &folder.metrics()?, evaluation);
    sections.push(Section { heading: "Activations".into(), blocks: vec![Block::Table(source_table(source))] });
    sections.push(Section {
        heading: "Config".into(),
        blocks: vec![Block::Details { summary: "the resolved config".into(), text: folder.read_config()? }],
    });
    let manifest = folder.manifest()?;
    let subtitle = format!("{} Seed {}, sememe {}, {}.", config.about, manifest.seed, manifest.sememe_version, manifest.command);
    Ok(folder.write_report(&Page { title: name, subtitle, sections }.to_html())?)
}

/// NMSE over L0 or any other pair, one point a dictionary.
pub(super) fn points(title: &str, x: &str, y: &str, named: Vec<(String, f64, f64)>) -> Block {
    let curves_of = named.into_iter().map(|(name, x, y)| Curve { name, points: vec![(x, y)] }).collect::<Vec<_>>();
    curves(title, x, y, false, &curves_of)
}
