//! `sememe reproduce NAME`: a published result, repeated over a grid of settings and seeds, our figures beside the published ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use sememe_run::folder::RunFolder;
use sememe_run::generative;
use sememe_run::generative::Config;
use sememe_run::generative::Dataset;
use sememe_run::observe::Verbosity;
use sememe_run::report::{Block, Page, Section, Series, Table, comparison};
use sememe_run::source;
use sememe_run::start::Outcome;
use sememe_truth::metric::{OverSeeds, regress::KernelRidge, set_scores};
use sememe_truth::structure::{Group, compare};
use serde::Deserialize;
use serde_json::json;

use super::{Context, INTERRUPTED, cores, file_link, one_thread_each};
use crate::recipe::{self, Recipe};

/// Arguments of `reproduce`.
#[derive(Args)]
pub struct Reproduce {
    /// Name of a recipe that is a reproduction (`sememe list recipes`).
    name: String,
    /// Only settings whose label contains this text (may be given several times; all must match).
    #[arg(long)]
    only: Vec<String>,
    /// Seeds instead of the recipe's: `--seeds 0,1,2`.
    #[arg(long, value_delimiter = ',')]
    seeds: Option<Vec<u64>>,
    /// Override a key in every run.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Runs at the same time, one thread each [default: one a core].
    #[arg(long)]
    jobs: Option<usize>,
    /// Folder of the runs [default: runs/NAME].
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A recipe that is a grid.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reproduction {
    about: String,
    /// Where the published figures come from.
    source: String,
    /// Seeds of the reported runs.
    seeds: Vec<u64>,
    /// Scores in the table.
    metrics: Vec<String>,
    /// Adds the set experiment's R² to the table.
    #[serde(default)]
    set_experiment: bool,
    /// The config that every run begins with.
    base: toml::Table,
    /// Settings that are combined with each other.
    axis: Vec<Axis>,
    /// Published value of the first metric by label.
    #[serde(default)]
    published: BTreeMap<String, f64>,
    /// Published values of the set experiment by label: Int, SymDiff, CompA, CompB, Ref.
    #[serde(default)]
    published_set: BTreeMap<String, Vec<f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Axis {
    /// For the reader of the recipe.
    #[serde(rename = "name")]
    _name: String,
    value: Vec<Setting>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    label: String,
    /// Keys that it sets.
    set: Vec<String>,
    /// Penalties that it has (instead of the base's).
    penalty: Option<Vec<toml::Table>>,
}

struct Cell {
    label: String,
    set: Vec<String>,
    penalty: Option<Vec<toml::Table>>,
}

impl Reproduction {
    fn parse(recipe: &Recipe) -> Result<Self> {
        toml::from_str(recipe.text).map_err(|error| anyhow!("recipe {}: {}", recipe.name, error.message()))
    }

    /// Every combination of the axes.
    fn cells(&self) -> Vec<Cell> {
        self.axis.iter().fold(vec![Cell { label: String::new(), set: Vec::new(), penalty: None }], |cells, axis| {
            cells
                .iter()
                .flat_map(|cell| {
                    axis.value.iter().map(|value| Cell {
                        label: format!("{}{}{}", cell.label, if cell.label.is_empty() { "" } else { ", " }, value.label),
                        set: [cell.set.clone(), value.set.clone()].concat(),
                        penalty: value.penalty.clone().or_else(|| cell.penalty.clone()),
                    })
                })
                .collect()
        })
    }

    fn config(&self, cell: &Cell, seed: u64, overrides: &[String]) -> Result<Config> {
        let mut table = self.base.clone();
        if let Some(penalty) = &cell.penalty {
            table.insert("penalty".into(), penalty.clone().into());
        }
        table.insert("about".into(), format!("{} {}.", self.about, cell.label).into());
        let overrides: Vec<String> = cell.set.iter().cloned().chain([format!("seed={seed}")]).chain(overrides.iter().cloned()).collect();
        Ok(Config::parse(&toml::to_string(&table)?, &cell.label, &overrides)?)
    }
}

/// Checks that every run of a reproduction has a valid config.
#[cfg(test)]
pub fn check(recipe: &Recipe) -> Result<()> {
    let reproduction = Reproduction::parse(recipe)?;
    let cells = reproduction.cells();
    for cell in &cells {
        reproduction.config(cell, 0, &[])?;
    }
    let labels = reproduction.published.keys().chain(reproduction.published_set.keys());
    for label in labels {
        if !cells.iter().any(|cell| cell.label == *label) {
            bail!("a figure is published for `{label}`, which is no setting");
        }
    }
    Ok(())
}

/// Scores of one run by name.
type Scores = BTreeMap<String, f64>;

const SET_NAMES: [&str; 5] = ["Int", "SymDiff", "CompA", "CompB", "Ref"];

impl Reproduce {
    /// Runs what has not been run yet, then prints the table.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let recipe = recipe::find(&self.name)?;
        if recipe.kind() != recipe::Kind::Reproduction {
            bail!("recipe `{}` is a single run; use `sememe train {}`", self.name, self.name);
        }
        let reproduction = Reproduction::parse(&recipe)?;
        let seeds = self.seeds.clone().unwrap_or_else(|| reproduction.seeds.clone());
        let cells: Vec<Cell> =
            reproduction.cells().into_iter().filter(|cell| self.only.iter().all(|text| cell.label.contains(text.as_str()))).collect();
        if cells.is_empty() || seeds.is_empty() {
            bail!(
                "no setting matches {:?}; settings are {}",
                self.only,
                reproduction.cells().iter().map(|cell| format!("`{}`", cell.label)).collect::<Vec<_>>().join(", ")
            );
        }
        let out = self.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(&self.name));
        let jobs: Vec<(usize, u64)> = cells.iter().enumerate().flat_map(|(cell, _)| seeds.iter().map(move |&seed| (cell, seed))).collect();
        let results = one_thread_each(&jobs, self.jobs.unwrap_or_else(cores), |&(cell, seed)| {
            if context.interrupt.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let config = reproduction.config(&cells[cell], seed, &self.set)?;
            let folder = out.join(cells[cell].label.replace([',', '/'], "").replace(' ', "-")).join(format!("seed-{seed}"));
            let result = self
                .one(&config, &folder, reproduction.set_experiment, context)
                .with_context(|| format!("{} seed {seed}", cells[cell].label))?;
            if let (Some(result), Verbosity::Progress) = (&result, context.verbosity) {
                let shown = reproduction
                    .metrics
                    .iter()
                    .filter_map(|name| result.get(name).map(|value| format!("{name} {value:.3}")))
                    .collect::<Vec<_>>()
                    .join("  ");
                eprintln!("{} seed {seed}: {shown}", cells[cell].label);
            }
            Ok(result)
        });
        let mut scores: BTreeMap<(usize, u64), Scores> = BTreeMap::new();
        for (job, result) in jobs.iter().zip(results) {
            scores.extend(result?.map(|result| (*job, result)));
        }
        if scores.is_empty() {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let table = table(&reproduction, &cells, &seeds, &scores);
        let page = Page {
            title: self.name.clone(),
            subtitle: format!("{} Published figures: {}.", reproduction.about, reproduction.source),
            sections: vec![
                Section {
                    heading: "Result".into(),
                    blocks: vec![plot(&reproduction, &cells, &seeds, &scores), Block::Table(table.clone())],
                },
                Section {
                    heading: "Recipe".into(),
                    blocks: vec![Block::Details { summary: "the recipe".into(), text: recipe.text.into() }],
                },
            ],
        };
        std::fs::create_dir_all(&out)?;
        sememe_run::atomic::write(&out.join("report.html"), page.to_html().as_bytes())?;
        let rows: Vec<_> =
            scores.iter().map(|((cell, seed), scores)| json!({"setting": cells[*cell].label, "seed": seed, "scores": scores})).collect();
        context.result(
            &format!("{}\nreport: {}", table.to_text(), file_link(&out.join("report.html"))),
            &json!({"reproduction": self.name, "runs": rows}),
        );
        Ok(if scores.len() == jobs.len() { ExitCode::SUCCESS } else { ExitCode::from(INTERRUPTED) })
    }

    /// The scores of one run, trained unless the folder holds it already; `None` when it was interrupted.
    fn one(&self, config: &Config, folder: &Path, set_experiment: bool, context: &Context) -> Result<Option<Scores>> {
        let same = RunFolder::read(folder).ok().is_some_and(|run| run.read_config().ok() == config.to_toml().ok());
        let finished = same && RunFolder::read(folder)?.manifest()?.finished;
        if !finished {
            let mut options = context.run_options(same, !same, Some(self.name.clone()));
            options.verbosity = Verbosity::Quiet;
            if let Outcome::Interrupted { .. } = generative::train(config, folder, &options)? {
                return Ok(None);
            }
        }
        let text = std::fs::read_to_string(folder.join("evaluation.json"))?;
        let evaluation: serde_json::Value = serde_json::from_str(&text)?;
        let mut scores = Scores::new();
        for line in evaluation["scores"].as_array().into_iter().flatten() {
            if let (Some(name), Some(value)) = (line["metric"].as_str(), line["score"]["value"].as_f64()) {
                scores.insert(name.into(), value);
                if let Some(null) = line["score"]["null"]["mean"].as_f64() {
                    scores.insert(format!("{name} null"), null);
                }
            }
        }
        if set_experiment {
            let data = Dataset::load(config)?;
            let codes = source::read(&folder.join("arrays/codes.npy"), None)?.matrix;
            if let (Some(latents), Some(support)) = (&data.test_latents, &data.support) {
                let half = support.rows() / 2;
                let group = |name: &str, observed| Group { name: name.into(), observed };
                let groups = compare(support, &group("K", (0..half).collect()), &group("V", (half..support.rows()).collect()))?;
                let s = set_scores(&KernelRidge::default(), latents, &codes, &groups, config.seed);
                let pairs = [s.intersection, s.symmetric_difference, s.complement_of_v, s.complement_of_k, s.reference];
                for (name, [score, floor]) in SET_NAMES.iter().zip(pairs) {
                    scores.insert((*name).into(), score);
                    scores.insert(format!("{name} floor"), floor);
                }
            }
        }
        Ok(Some(scores))
    }
}

/// Mean and half-width over the seeds.
fn summary(scores: &BTreeMap<(usize, u64), Scores>, seeds: &[u64], cell: usize, name: &str) -> OverSeeds {
    OverSeeds::of(&seeds.iter().filter_map(|seed| scores.get(&(cell, *seed))?.get(name).copied()).collect::<Vec<_>>())
}

/// The first metric over the first axis, a line for each setting of the others; the set experiment's five numbers likewise.
fn plot(reproduction: &Reproduction, cells: &[Cell], seeds: &[u64], scores: &BTreeMap<(usize, u64), Scores>) -> Block {
    let metric = reproduction.metrics.first().map_or("", String::as_str);
    let mut lines: Vec<Series> = Vec::new();
    let mut nulls = BTreeSet::new();
    let mut add = |name: String, point: (String, f64, Option<f64>)| match lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(point),
        None => lines.push(Series { name, points: vec![point] }),
    };
    for (c, cell) in cells.iter().enumerate() {
        let (setting, rest) = cell.label.split_once(", ").unwrap_or((&cell.label, ""));
        let named: Vec<(String, &str, Option<f64>)> = if reproduction.set_experiment {
            let published = |k: usize| reproduction.published_set.get(&cell.label).and_then(|values| values.get(k)).copied();
            SET_NAMES.iter().enumerate().map(|(k, name)| ((*name).to_string(), *name, published(k))).collect()
        } else {
            vec![(if rest.is_empty() { "ours".into() } else { rest.to_string() }, metric, reproduction.published.get(&cell.label).copied())]
        };
        for (name, key, published) in named {
            let ours = summary(scores, seeds, c, key);
            if ours.seeds > 0 {
                add(name.clone(), (setting.into(), ours.mean, Some(ours.half_width)));
            }
            if let Some(value) = published {
                add(format!("{name}, published"), (setting.into(), value, None));
            }
        }
        let null = summary(scores, seeds, c, &format!("{metric} null"));
        if null.seeds > 0 && !reproduction.set_experiment && nulls.insert(setting.to_string()) {
            add("null".into(), (setting.into(), null.mean, None));
        }
    }
    let y_label = if reproduction.set_experiment { "R²" } else { metric };
    comparison("Ours, the published figures, and the null", "", y_label, &lines)
}

fn table(reproduction: &Reproduction, cells: &[Cell], seeds: &[u64], scores: &BTreeMap<(usize, u64), Scores>) -> Table {
    let over = |cell: usize, name: &str| summary(scores, seeds, cell, name);
    let mut names: Vec<&str> = reproduction.metrics.iter().map(String::as_str).collect();
    if reproduction.set_experiment {
        names.extend(SET_NAMES);
    }
    let first = reproduction.metrics.first().map_or("", String::as_str);
    let mut head: Vec<String> = vec!["setting".into()];
    for name in &names {
        head.push((*name).into());
        if *name == first || SET_NAMES.contains(name) {
            head.push("published".into());
        }
        head.push(if SET_NAMES.contains(name) { "floor".into() } else { "null".into() });
    }
    head.push("seeds".into());
    let rows = cells.iter().enumerate().map(|(c, cell)| {
        let mut row = vec![cell.label.clone()];
        for name in &names {
            let ours = over(c, name);
            row.push(format!("{:.3} ± {:.3}", ours.mean, ours.half_width));
            let in_set = SET_NAMES.iter().position(|set| set == name);
            if *name == first || in_set.is_some() {
                let published = match in_set {
                    Some(k) => reproduction.published_set.get(&cell.label).and_then(|values| values.get(k)),
                    None => reproduction.published.get(&cell.label),
                };
                row.push(published.map_or("–".into(), |value| format!("{value:.3}")));
            }
            let against = over(c, &format!("{name} {}", if in_set.is_some() { "floor" } else { "null" }));
            row.push(if against.seeds == 0 { "–".into() } else { format!("{:.3}", against.mean) });
        }
        row.push(over(c, first).seeds.to_string());
        row
    });
    Table {
        head,
        rows: rows.collect(),
        note: format!(
            "Mean over seeds ± half-width of its 95 % t-interval. Published: {}. Our generator and estimator are our own; see the recipe.",
            reproduction.source
        ),
    }
}
