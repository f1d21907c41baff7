//! The page of a run: what was asked, how training went, what was learned, and what the structure lets one identify.

use std::path::PathBuf;

use sememe_truth::Matrix;
use sememe_truth::metric::{Matching, Mcc, recovery};
use sememe_truth::structure::{Support, Verdict, atoms, draw_sets, row_groups, verdicts};
use serde_json::Value;

use super::config::Config;
use super::data::Dataset;
use super::evaluate::{Evaluation, GeneratorCheck};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::report::{Block, Page, Section, Table, heatmap, image_grid, loss_plots};

/// Observed variables that a matrix shows at most; of more, an even selection.
const MOST_ROWS: usize = 64;

fn number(value: f64) -> String {
    if value == value.round() && value.abs() < 1e6 { format!("{value}") } else { format!("{value:.3}") }
}

/// One line a metric: score with its bootstrap interval, null mean and its 95 % quantile.
pub fn scores_table(evaluation: &Evaluation) -> Table {
    let rows = evaluation.scores.iter().map(|line| match (&line.score, &line.missing) {
        (Some(score), _) => {
            let null = score.null.as_ref();
            vec![
                line.metric.clone(),
                number(score.value),
                score.interval.map_or("–".into(), |(low, high)| format!("{} – {}", number(low), number(high))),
                null.map_or("–".into(), |null| number(null.mean)),
                null.map_or("–".into(), |null| number(null.upper_95)),
                null.map_or("–".into(), |null| null.of.clone()),
            ]
        }
        (None, missing) => vec![line.metric.clone(), "–".into(), "–".into(), "–".into(), "–".into(), missing.clone().unwrap_or_default()],
    });
    Table {
        head: ["metric", "score", "95 % interval", "null mean", "null 95 %", "null"].map(String::from).to_vec(),
        rows: rows.collect(),
        note: "Each score stands beside what chance gives: read the difference, not the number.".into(),
    }
}

fn picked_rows(rows: usize) -> Vec<usize> {
    if rows <= MOST_ROWS { (0..rows).collect() } else { (0..MOST_ROWS).map(|k| k * rows / MOST_ROWS).collect() }
}

/// The matrices of truth and estimate side by side, the estimate's columns in the order of the best match.
fn matrices(evaluation: &Evaluation, data: &Dataset, threshold: f64) -> Vec<Block> {
    let picked = picked_rows(evaluation.dependency.nrows());
    let rows: Vec<String> = picked.iter().map(|i| format!("x{i}")).collect();
    let order: Vec<usize> = match (&data.support, evaluation.support(threshold)) {
        (Some(truth), Some(estimate)) => {
            let matched: Vec<usize> = recovery(truth, &estimate).assignment.into_iter().flatten().collect();
            let rest = (0..evaluation.dependency.ncols()).filter(|l| !matched.contains(l));
            matched.iter().copied().chain(rest).collect()
        }
        _ => (0..evaluation.dependency.ncols()).collect(),
    };
    let learned = Matrix::from_fn(picked.len(), order.len(), |i, j| evaluation.dependency[(picked[i], order[j])]);
    let largest = (0..learned.nrows()).flat_map(|i| (0..learned.ncols()).map(move |j| (i, j))).map(|at| learned[at]).fold(0.0, f64::max);
    let names: Vec<String> = order.iter().map(|l| format!("ẑ{l}")).collect();
    let mut blocks = Vec::new();
    if let Some(truth) = &evaluation.true_dependency {
        let shown = Matrix::from_fn(picked.len(), truth.ncols(), |i, j| truth[(picked[i], j)]);
        blocks.push(heatmap("true mean |∂x/∂z|·std(z)", &shown, &rows, &data.factors, Some(largest)));
    }
    blocks.push(heatmap("learned mean |∂x/∂ẑ|·std(ẑ)", &learned, &rows, &names, Some(largest)));
    vec![Block::Row(blocks)]
}

/// The Venn atoms of a structure, and a verdict on each latent.
pub fn atoms_section(heading: &str, support: &Support, factors: &[String]) -> Section {
    let groups = row_groups(support);
    let mut blocks = Vec::new();
    if let Ok(cells) = atoms(support, &groups) {
        blocks.push(Block::Text(format!(
            "The distinct rows of the structure ({}) cut the {} latents into atoms ({}). Latents of one atom move the same observed variables, and no sparsity can tell them apart.",
            groups.len(),
            support.latents(),
            cells.len()
        )));
        blocks.push(Block::Svg(draw_sets(&groups, &cells, factors)));
    }
    let name = |j: usize| factors.get(j).cloned().unwrap_or_else(|| format!("z{j}"));
    let list = |latents: &std::collections::BTreeSet<usize>| latents.iter().map(|&j| name(j)).collect::<Vec<_>>().join(", ");
    let rows = verdicts(support).into_iter().enumerate().map(|(j, verdict)| {
        let text = match verdict {
            Verdict::Alone => "alone".into(),
            Verdict::Block(block) => format!("as the block {{{}}}", list(&block)),
            Verdict::Entangled { with, .. } => format!("up to mixing in {}", list(&with)),
            Verdict::Unseen => "not at all: no observed variable depends on it".into(),
        };
        vec![name(j), text]
    });
    blocks.push(Block::Table(Table { head: vec!["latent".into(), "identified".into()], rows: rows.collect(), note: String::new() }));
    Section { heading: heading.into(), blocks }
}

/// What recovery presupposes of the generators, checked on samples.
fn checks_table(evaluation: &Evaluation) -> Table {
    let rows = [("true", &evaluation.true_check), ("learned", &evaluation.learned_check)].into_iter().filter_map(|(name, check)| {
        let GeneratorCheck { conditioning, sufficient_rows, rows } = (*check)?;
        Some(vec![
            name.into(),
            number(conditioning.smallest),
            number(conditioning.largest),
            number(conditioning.ratio_5_percent),
            format!("{sufficient_rows} of {rows}"),
        ])
    });
    Table {
        head: ["generator", "singular values from", "to", "their ratio, 5 % quantile", "observed variables nonlinear enough"]
            .map(String::from)
            .to_vec(),
        rows: rows.collect(),
        note: "Over sampled Jacobians, columns scaled by std(z); nonlinear enough: its sampled rows span its dependencies. A generator that is nearly singular, or too linear, caps every score whatever the method.".into(),
    }
}

/// All sections on one run.
pub fn run_sections(name: &str, config: &Config, lines: &[Value], data: &Dataset, evaluation: &Evaluation) -> Vec<Section> {
    let section = |heading: String, blocks| Section { heading, blocks };
    let mut sections = vec![section(format!("{name}: training"), vec![Block::Row(loss_plots(lines))])];
    if !evaluation.scores.is_empty() {
        sections.push(section(format!("{name}: scores"), vec![Block::Table(scores_table(evaluation))]));
    }
    sections.push(section(format!("{name}: dependencies"), matrices(evaluation, data, config.evaluation.support_threshold)));
    sections.push(section(format!("{name}: generators"), vec![Block::Table(checks_table(evaluation))]));
    if let Some(latents) = &data.test_latents {
        let Matching { matrix, assignment, .. } = Mcc::default().matching(latents, &evaluation.codes);
        let matched: Vec<usize> = assignment.into_iter().flatten().collect();
        let order: Vec<usize> = matched.iter().copied().chain((0..matrix.ncols()).filter(|l| !matched.contains(l))).collect();
        let size = Matrix::from_fn(matrix.nrows(), order.len(), |i, j| matrix[(i, order[j])].abs());
        let columns: Vec<String> = order.iter().map(|l| format!("ẑ{l}")).collect();
        sections.push(section(
            format!("{name}: MCC matrix"),
            vec![heatmap("|correlation| of true and learned latents", &size, &data.factors, &columns, Some(1.0))],
        ));
    }
    if let Some(shape) = evaluation.image_shape {
        let grid = image_grid(
            &evaluation.traversals,
            shape,
            "Traversals: a row a latent, from −2 to 2 standard deviations around the mean code",
            2,
        );
        sections.push(section(format!("{name}: traversals"), grid.into_iter().collect()));
    }
    sections
}

/// Writes `report.html` of a single run.
pub fn write_run_report(folder: &RunFolder, config: &Config, data: &Dataset, evaluation: &Evaluation) -> Result<PathBuf, RunError> {
    let name = folder.path().file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned());
    let mut sections = run_sections(&name, config, &folder.metrics()?, data, evaluation);
    if let Some(support) = &data.support {
        sections.push(atoms_section("True structure", support, &data.factors));
    }
    if let Some(support) = evaluation.support(config.evaluation.support_threshold) {
        sections.push(atoms_section("Learned structure", &support, &(0..support.latents()).map(|l| format!("ẑ{l}")).collect::<Vec<_>>()));
    }
    let manifest = folder.manifest()?;
    sections.push(Section {
        heading: "Config".into(),
        blocks: vec![Block::Details { summary: "the resolved config".into(), text: folder.read_config()? }],
    });
    let subtitle = format!("{} Seed {}, sememe {}, {}.", config.about, manifest.seed, manifest.sememe_version, manifest.command);
    Ok(folder.write_report(&Page { title: name, subtitle, sections }.to_html())?)
}
