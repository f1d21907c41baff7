//! The first half of the quickstart: data with known factors, the same VAE under three objectives.

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result};
use sememe::train::Term;
use sememe_run::folder::RunFolder;
use sememe_run::generative::{self, Config, Dataset, Evaluation, atoms_section, run_sections};
use sememe_run::report::{Block, Section, Table};
use sememe_run::start::Outcome;
use serde_json::json;

use super::Part;
use crate::command::{Context, cores, one_thread_each};
use crate::recipe;

/// The data sets, by recipe, with a line on each.
const DATA: [(&str, &str); 2] = [
    ("synthetic-diverse", "Synthetic data: ten observed variables, each a small network of its own over one to three of five latents."),
    (
        "three-dots",
        "Rendered images of three dots, six factors. x and y of a dot move the same pixels, so even a perfect method identifies them only as a block: MCC can stay below 1 while the structure is right.",
    ),
];

/// The three objectives: name, and what it does to the recipe's penalties.
const OBJECTIVES: [&str; 3] = ["no penalty", "latent L1", "dependency sparsity"];

/// The recipe's config under one of the objectives.
fn config(recipe: &str, objective: &str) -> Result<Config> {
    let mut config = recipe::generative(recipe, &[])?;
    match objective {
        "no penalty" => config.penalty.clear(),
        "latent L1" => {
            let kind = serde_json::from_value(json!({"name": "latent-l1"}))?;
            config.penalty = vec![Term::new(kind, LATENT_L1_WEIGHT)];
        }
        _ => {}
    }
    if objective != "dependency sparsity" {
        // The search for a sparse basis is part of dependency sparsity.
        config.training.realign = None;
    }
    config.about = format!("Quickstart, {objective}.");
    Ok(config)
}

/// The weight that the paper gives to either sparsity.
const LATENT_L1_WEIGHT: f64 = 0.05;

/// Scores in the table, and their heads.
const SCORES: [(&str, &str); 3] = [("mcc-pearson", "MCC"), ("r2-kernel-ridge", "R²"), ("structure-f1", "structure F1")];

/// Trains six models; `None` when interrupted.
pub(super) fn run(out: &Path, context: &Context) -> Result<Option<Part>> {
    let jobs: Vec<(&str, &str)> = DATA.iter().flat_map(|(data, _)| OBJECTIVES.iter().map(move |objective| (*data, *objective))).collect();
    let folder = |data: &str, objective: &str| out.join(format!("{data}-{}", objective.replace(' ', "-").to_lowercase()));
    // The images take longest, so they go first.
    let order: Vec<(&str, &str)> = jobs.iter().rev().copied().collect();
    let mut outcomes = one_thread_each(&order, cores(), |(data, objective)| {
        one(&config(data, objective)?, &folder(data, objective), context).with_context(|| format!("{data}, {objective}"))
    });
    outcomes.reverse();
    let evaluations: Vec<Option<Evaluation>> = outcomes.into_iter().collect::<Result<_>>()?;
    if context.interrupt.load(Ordering::Relaxed) || evaluations.iter().any(Option::is_none) {
        return Ok(None);
    }
    let evaluations: Vec<Evaluation> = evaluations.into_iter().flatten().collect();
    let mut half = Part::default();
    for (d, (data, about)) in DATA.iter().enumerate() {
        let of_data = &evaluations[d * OBJECTIVES.len()..(d + 1) * OBJECTIVES.len()];
        let table = table(of_data);
        half.text += &format!("{about}\n\n{}\n", table.to_text());
        for (objective, evaluation) in OBJECTIVES.iter().zip(of_data) {
            half.figures.push(json!({"data": data, "objective": objective, "scores": evaluation.scores}));
        }
        half.results.push(Section { heading: format!("Result: {data}"), blocks: vec![Block::Text((*about).into()), Block::Table(table)] });
    }
    for (d, (data, _)) in DATA.iter().enumerate() {
        for (o, objective) in OBJECTIVES.iter().enumerate().rev() {
            let config = config(data, objective)?;
            let dataset = Dataset::load(&config)?;
            let lines = RunFolder::read(&folder(data, objective))?.metrics()?;
            let evaluation = &evaluations[d * OBJECTIVES.len() + o];
            half.details.extend(run_sections(&format!("{data}, {objective}"), &config, &lines, &dataset, evaluation));
            if o == OBJECTIVES.len() - 1
                && let Some(support) = &dataset.support
            {
                half.details.push(atoms_section(&format!("{data}: Venn atoms of the true structure"), support, &dataset.factors));
            }
        }
    }
    Ok(Some(half))
}

fn one(config: &Config, folder: &Path, context: &Context) -> Result<Option<Evaluation>> {
    let options = context.run_options(false, true, None);
    match generative::train(config, folder, &options)? {
        Outcome::Finished(evaluation) => Ok(Some(*evaluation)),
        Outcome::Interrupted { .. } => Ok(None),
    }
}

fn table(evaluations: &[Evaluation]) -> Table {
    let mut head: Vec<String> = vec!["objective".into()];
    head.extend(SCORES.iter().flat_map(|(_, name)| [(*name).to_string(), "null".into()]));
    head.push("reconstruction error".into());
    let rows = OBJECTIVES.iter().zip(evaluations).map(|(objective, evaluation)| {
        let mut row = vec![(*objective).to_string()];
        for (tag, _) in SCORES {
            let score = evaluation.score(tag);
            row.push(score.map_or("–".into(), |score| format!("{:.3}", score.value)));
            row.push(score.and_then(|score| score.null.as_ref()).map_or("–".into(), |null| format!("{:.3}", null.mean)));
        }
        row.push(format!("{:.4}", evaluation.reconstruction_error));
        row
    });
    Table {
        head,
        rows: rows.collect(),
        note: "null: MCC of a random rotation of the truth; R² of permuted samples; F1 of dependencies shuffled within rows.".into(),
    }
}
