//! `sememe train NAME` or `--config FILE`: one run from data to report: a generative model, a dictionary, a pair, a small transformer.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use sememe::dictionary::DictionaryKind;
use sememe_run::report::Table;
use sememe_run::start::Outcome;
use sememe_run::{config, dictionary, generative, language_model, pair};
use serde_json::{Value, json};

use super::harvest::Reading;
use super::{Context, INTERRUPTED, file_link};
use crate::recipe::{self, Kind};

/// Arguments of `train`.
#[derive(Args)]
pub struct Train {
    /// Name of a recipe (`sememe list recipes`) or of a dictionary (`sememe list dictionaries`), or `jacobian` for a pair.
    #[arg(conflicts_with = "config", required_unless_present = "config")]
    name: Option<String>,
    /// A config of your own (TOML).
    #[arg(long)]
    config: Option<PathBuf>,
    /// Override a key: `--set model.dz=8 --set penalty.0.weight=0.1`; a key of the dictionary needs no prefix: `--set k=32`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Activations that a dictionary is trained on (`sememe harvest`).
    #[arg(long)]
    data: Option<PathBuf>,
    /// Or: a model that is harvested while the dictionary trains, with --hook and --text.
    #[arg(long, conflicts_with = "data")]
    model: Option<String>,
    #[command(flatten)]
    reading: Reading,
    /// Folder of the run [default: runs/NAME].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Go on from the last checkpoint; ends at the same bits as an uninterrupted run.
    #[arg(long)]
    resume: bool,
    /// Replace the run that the folder holds.
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
}

/// The name of a pair of TopK dictionaries around an MLP with a penalty on their Jacobian.
pub const PAIR: &str = "jacobian";

/// What is left of a run of either kind.
enum Ended {
    Finished(Table, Value),
    Interrupted(usize),
}

impl Train {
    /// Trains, evaluates, and prints the scores.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let (name, origin, table) = self.table()?;
        let out = self.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(&name));
        let options = context.run_options(self.resume, self.overwrite, self.name.clone());
        let kind = Kind::of(&table);
        let ended = match kind {
            Kind::Generative | Kind::LanguageModel if self.data.is_some() || self.model.is_some() || self.reading.is_given() => {
                bail!("--data, --model, --hook and --text go with a dictionary; `{name}` is none (`sememe list dictionaries`)");
            }
            Kind::LanguageModel => {
                let config: language_model::Config = config::from_table(table, &origin, &self.set)?;
                match language_model::train(&config, &out, &options)? {
                    Outcome::Finished(evaluation) => Ended::Finished(evaluation.table(), json!(evaluation.lines)),
                    Outcome::Interrupted { step } => Ended::Interrupted(step),
                }
            }
            Kind::Generative => {
                let config: generative::Config = config::from_table(table, &origin, &self.set)?;
                match generative::train(&config, &out, &options)? {
                    Outcome::Finished(evaluation) => Ended::Finished(generative::scores_table(&evaluation), json!(evaluation.scores)),
                    Outcome::Interrupted { step } => Ended::Interrupted(step),
                }
            }
            Kind::Dictionary => {
                let config: dictionary::Config = config::from_table(self.with_data(table)?, &origin, &self.settings("dictionary"))?;
                match dictionary::train(&config, &out, &options, None)? {
                    Outcome::Finished(evaluation) => {
                        let scores =
                            json!({"reconstruction": evaluation.scores, "nulls": evaluation.nulls, "language": evaluation.language});
                        Ended::Finished(dictionary::scores_table(&evaluation), scores)
                    }
                    Outcome::Interrupted { step } => Ended::Interrupted(step),
                }
            }
            Kind::Pair => {
                let config: pair::Config = config::from_table(self.with_data(table)?, &origin, &self.settings("pair"))?;
                match pair::train(&config, &out, &options)? {
                    Outcome::Finished(evaluation) => {
                        let scores =
                            json!({"input": evaluation.input.scores, "output": evaluation.output.scores, "jacobian": evaluation.jacobian});
                        Ended::Finished(pair::scores_table(&evaluation), scores)
                    }
                    Outcome::Interrupted { step } => Ended::Interrupted(step),
                }
            }
            Kind::Reproduction | Kind::Comparison | Kind::PairComparison => {
                bail!("`{name}` is more than one run; use `sememe {} {name}`", kind.command())
            }
        };
        match ended {
            Ended::Finished(table, scores) => {
                let text = format!("{}\nreport: {}", table.to_text(), file_link(&out.join("report.html")));
                context.result(&text, &json!({"run": out, "scores": scores}));
                Ok(ExitCode::SUCCESS)
            }
            Ended::Interrupted(step) => {
                context
                    .result(&format!("interrupted after {step} steps; add --resume to go on"), &json!({"run": out, "interrupted": step}));
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    }

    /// Name, origin and keys of what is trained: a recipe's, a file's, or those that a dictionary's name stands for.
    fn table(&self) -> Result<(String, String, toml::Table)> {
        if let Some(path) = &self.config {
            let name = path.file_stem().map_or_else(|| "run".into(), |stem| stem.to_string_lossy().into_owned());
            let origin = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|source| config::ConfigError::Read { path: path.clone(), source })?;
            return Ok((name, origin.clone(), config::table(&text, &origin)?));
        }
        let name = self.name.clone().unwrap_or_default();
        if DictionaryKind::ENTRIES.iter().any(|entry| entry.tag == name) {
            let text = format!("[dictionary]\nname = \"{name}\"");
            return Ok((name.clone(), format!("dictionary {name}"), config::table(&text, &name)?));
        }
        if name == PAIR {
            let text = "[pair]\ninput = { name = \"topk\" }";
            return Ok((name.clone(), format!("pair {name}"), config::table(text, &name)?));
        }
        let Ok(recipe) = recipe::find(&name) else {
            let recipes = recipe::all();
            let known = DictionaryKind::ENTRIES.iter().map(|entry| entry.tag).chain([PAIR]).chain(recipes.iter().map(|recipe| recipe.name));
            bail!("`{name}` is neither a dictionary nor a recipe; there are {}", known.collect::<Vec<_>>().join(", "));
        };
        let origin = format!("recipe {name}");
        Ok((name, origin.clone(), config::table(recipe.text, &origin)?))
    }

    /// The table with the activations that the command line names.
    fn with_data(&self, mut table: toml::Table) -> Result<toml::Table> {
        let mut data = toml::Table::new();
        if let Some(folder) = &self.data {
            data.insert("activations".into(), folder.display().to_string().into());
            if self.reading.is_given() {
                bail!("--hook and --text go with --model; the hooks of --data are chosen by --set data.hooks='[\"12.mlp_out\"]'");
            }
        } else if let Some(model) = &self.model {
            data.insert("live".into(), toml::Value::try_from(self.reading.config(model, 0)?)?);
        } else {
            return Ok(table);
        }
        let given = table.entry("data").or_insert_with(|| toml::Value::Table(toml::Table::new()));
        if let Some(given) = given.as_table_mut() {
            given.remove("activations");
            given.remove("live");
            given.extend(data);
        }
        Ok(table)
    }

    /// `--set`, where a key without a table belongs to the dictionary; of a pair, to its penalty (`weight`, `every`, …) or else
    /// to its dictionaries.
    fn settings(&self, of: &str) -> Vec<String> {
        let alone = |key: &str| !key.contains('.') && !key.is_empty() && !["seed", "about"].contains(&key);
        let of_penalty = ["weight", "normalise", "every", "tokens", "latents_fraction"];
        let prefixed = |assignment: &String| match assignment.split_once('=') {
            Some((key, _)) if alone(key) && of == "pair" && of_penalty.contains(&key) => format!("pair.jacobian.{assignment}"),
            Some((key, _)) if alone(key) && of == "pair" => format!("pair.input.{assignment}"),
            Some((key, _)) if alone(key) => format!("{of}.{assignment}"),
            _ => assignment.clone(),
        };
        self.set.iter().map(prefixed).collect()
    }
}
