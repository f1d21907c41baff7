//! `sememe list [KIND]`: every member of every catalogue, one line each.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use sememe::dictionary::DictionaryKind;
use sememe::generative::ModelKind;
use sememe::penalty::PenaltyKind;
use sememe_truth::catalogue::Entry;
use sememe_truth::metric::MetricKind;
use sememe_truth::world::WorldKind;
use serde_json::json;

use super::Context;
use super::train::PAIR;
use crate::recipe;

/// What can be listed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Models,
    Dictionaries,
    Pairs,
    Penalties,
    Metrics,
    Worlds,
    Recipes,
}

/// Arguments of `list`.
#[derive(Args)]
pub struct List {
    /// Only this kind.
    kind: Option<Kind>,
}

impl List {
    /// Prints the catalogues.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let catalogue =
            |entries: &[Entry]| entries.iter().map(|entry| (entry.tag.to_string(), entry.about.to_string())).collect::<Vec<_>>();
        let kinds = [
            (Kind::Models, "models", catalogue(ModelKind::ENTRIES)),
            (Kind::Dictionaries, "dictionaries", catalogue(DictionaryKind::ENTRIES)),
            (
                Kind::Pairs,
                "pairs",
                vec![(PAIR.to_string(), "dictionaries on both sides of an MLP, with a sparse Jacobian between them".to_string())],
            ),
            (Kind::Penalties, "penalties", catalogue(PenaltyKind::ENTRIES)),
            (Kind::Metrics, "metrics", catalogue(MetricKind::ENTRIES)),
            (Kind::Worlds, "worlds", catalogue(WorldKind::ENTRIES)),
            (Kind::Recipes, "recipes", recipes()),
        ];
        let mut text = String::new();
        let mut object = serde_json::Map::new();
        for (_, name, entries) in kinds.into_iter().filter(|(kind, ..)| self.kind.is_none_or(|only| only == *kind)) {
            text += &format!("{name}\n");
            let width = entries.iter().map(|(tag, _)| tag.len()).max().unwrap_or(0);
            for (tag, about) in &entries {
                text += &format!("  {tag:<width$}  {about}\n");
            }
            text += "\n";
            object.insert(name.into(), json!(entries.iter().map(|(tag, about)| json!({"name": tag, "about": about})).collect::<Vec<_>>()));
        }
        context.result(&text, &json!(object));
        Ok(ExitCode::SUCCESS)
    }
}

/// Recipes, each with the command that carries it out.
fn recipes() -> Vec<(String, String)> {
    recipe::all().into_iter().map(|recipe| (format!("{} {}", recipe.kind().command(), recipe.name), recipe.about())).collect()
}
