//! Several pairs on the same activations: harvested once, each trained and scored, and one table.

use std::path::{Path, PathBuf};

use sememe::dictionary::DictionaryPlan;
use sememe::pair::PairConfig;
use serde::{Deserialize, Serialize};

use super::config::{Config, JacobianEvaluationConfig};
use super::evaluate::Evaluation;
use super::page::pair_sections;
use super::run::train;
use crate::activations::{HarvestConfig, Harvested, harvest};
use crate::atomic;
use crate::config::{Checked, OutputConfig};
use crate::dictionary::{DataConfig, EvaluationConfig};
use crate::error::RunError;
use crate::folder::{FolderError, RunFolder};
use crate::report::{Block, Page, Section, Table};
use crate::start::{Outcome, RunOptions};

/// One pair of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name in the table.
    pub name: String,
    /// The pair.
    pub pair: PairConfig,
    /// Seeds; each has a line.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
}

fn one_seed() -> Vec<u64> {
    vec![0]
}

/// Everything that determines a comparison of pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairComparisonConfig {
    /// One line for reports and listings.
    pub about: String,
    /// What is harvested, if the folder of activations is not there yet.
    pub harvest: HarvestConfig,
    /// Which of the hooks are used, where they are not the only ones.
    #[serde(default)]
    pub data: DataConfig,
    /// Training of each pair.
    #[serde(default)]
    pub training: DictionaryPlan,
    /// How each dictionary is scored.
    #[serde(default)]
    pub evaluation: EvaluationConfig,
    /// How each Jacobian is scored.
    #[serde(default)]
    pub jacobian_evaluation: JacobianEvaluationConfig,
    /// How often the runs report and save.
    #[serde(default)]
    pub output: OutputConfig,
    /// The pairs.
    pub compared: Vec<Entry>,
}

impl PairComparisonConfig {
    fn config_of(&self, entry: &Entry, seed: u64, activations: &Path) -> Config {
        Config {
            about: format!("{}, on the activations of {}.", entry.name, self.harvest.hooks.join(", ")),
            seed,
            data: DataConfig { activations: Some(activations.into()), ..self.data.clone() },
            pair: entry.pair.clone(),
            training: self.training.clone(),
            evaluation: self.evaluation.clone(),
            jacobian_evaluation: self.jacobian_evaluation.clone(),
            output: self.output.clone(),
        }
    }
}

impl Checked for PairComparisonConfig {
    fn check(&self) -> Result<(), String> {
        self.harvest.check().map_err(|error| error.to_string())?;
        if self.compared.is_empty() {
            return Err("no [[compared]]; give at least one pair".into());
        }
        for entry in &self.compared {
            if entry.seeds.is_empty() {
                return Err(format!("`{}` has no seeds; give at least one", entry.name));
            }
            if entry.name.is_empty() || entry.name.contains(['/', '\\']) || entry.name.starts_with('.') {
                return Err(format!("`{}`: give a name that can be a folder's", entry.name));
            }
            self.config_of(entry, 0, Path::new("activations")).check().map_err(|error| format!("`{}`: {error}", entry.name))?;
        }
        Ok(())
    }
}

/// A line of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The pair's name.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// Its scores.
    pub evaluation: Evaluation,
    /// Its run's folder.
    pub folder: PathBuf,
}

/// All lines.
#[derive(Clone, Debug, Serialize)]
pub struct PairComparison {
    /// One a pair and seed.
    pub lines: Vec<Line>,
    /// The page.
    pub report: PathBuf,
}

/// Harvests, trains and scores what `config` describes in the folder `out`; what is there already is used.
///
/// `activations` is a folder of its own for the shards, `out/activations` otherwise. `None` when interrupted.
///
/// # Errors
/// Those of the harvest and of the runs.
pub fn compare(
    config: &PairComparisonConfig,
    out: &Path,
    activations: Option<&Path>,
    options: &RunOptions,
) -> Result<Option<PairComparison>, RunError> {
    let folder = activations.map_or_else(|| out.join("activations"), Path::to_path_buf);
    std::fs::create_dir_all(out).map_err(|source| FolderError::Io { path: out.into(), source })?;
    let has_some = folder.join("activations.json").is_file();
    let again = (has_some && !options.overwrite, options.overwrite);
    if let Harvested::Interrupted { .. } = harvest(&config.harvest, &folder, again, options.verbosity, &options.interrupt)? {
        return Ok(None);
    }
    let mut lines = Vec::new();
    for entry in &config.compared {
        for &seed in &entry.seeds {
            let own = config.config_of(entry, seed, &folder);
            let path = out.join(if entry.seeds.len() > 1 { format!("{}-seed{seed}", entry.name) } else { entry.name.clone() });
            let Some(evaluation) = one(&own, &path, options)? else { return Ok(None) };
            lines.push(Line { name: entry.name.clone(), seed, evaluation, folder: path });
        }
    }
    let comparison = PairComparison { lines, report: out.join("report.html") };
    let title = out.file_name().map_or_else(|| "comparison".into(), |name| name.to_string_lossy().into_owned());
    let page = Page { title, subtitle: config.about.clone(), sections: compared_sections(&comparison)? };
    let json = serde_json::to_vec_pretty(&comparison.lines).map_err(|error| RunError::Data(error.to_string()))?;
    for (path, bytes) in [(comparison.report.clone(), page.to_html().into_bytes()), (out.join("comparison.json"), json)] {
        atomic::write(&path, &bytes).map_err(|source| FolderError::Io { path, source })?;
    }
    Ok(Some(comparison))
}

/// Trains one pair, or goes on with it, or takes what is there.
fn one(config: &Config, path: &Path, options: &RunOptions) -> Result<Option<Evaluation>, RunError> {
    let mut own = RunOptions { overwrite: path.exists(), resume: false, ..options.clone() };
    if !options.overwrite && path.join("manifest.json").is_file() {
        let folder = RunFolder::read(path)?;
        if folder.read_config()? == config.to_toml()? {
            if folder.manifest()?.finished
                && let Some(evaluation) = Evaluation::read(&folder)?
            {
                return Ok(Some(evaluation));
            }
            own = RunOptions { resume: true, ..options.clone() };
        }
    }
    Ok(match train(config, path, &own)? {
        Outcome::Finished(evaluation) => Some(*evaluation),
        Outcome::Interrupted { .. } => None,
    })
}

/// One line a pair and seed.
pub fn table(comparison: &PairComparison) -> Table {
    let several = comparison.lines.iter().any(|line| line.seed != comparison.lines[0].seed);
    let rows = comparison.lines.iter().map(|line| {
        let Evaluation { input, output, jacobian, .. } = &line.evaluation;
        let both = |f: &dyn Fn(&crate::dictionary::Evaluation) -> Option<String>| {
            let of = |side| f(side).unwrap_or_else(|| "–".into());
            format!("{} / {}", of(input), of(output))
        };
        vec![
            if several { format!("{}, seed {}", line.name, line.seed) } else { line.name.clone() },
            both(&|side| Some(format!("{:.1}", side.scores.l0))),
            both(&|side| Some(format!("{:.3}", side.scores.nmse))),
            both(&|side| side.language.map(|language| format!("{:.3}", language.ce_recovered))),
            both(&|side| side.language.map(|language| format!("{:.3}", language.kl_recovered))),
            both(&|side| side.training.map(|training| training.dead.to_string())),
            format!("{:.0}", jacobian.entries.block),
            format!("{:.1}", jacobian.entries.above[1]),
            format!("{:.1}", jacobian.entries.above_normalised[1]),
            format!("{:.0}", jacobian.entries.kurtosis),
            format!("{:.0} / {:.0} %", 100.0 * jacobian.shapes.linear_fraction, 100.0 * jacobian.shapes.jumprelu_fraction),
            format!("{:.2}", jacobian.ablation.unit_correlation),
            input.training.and_then(|training| training.tokens_per_second).map_or("–".into(), |rate| format!("{rate:.0}")),
        ]
    });
    let head = [
        "pair",
        "L0",
        "NMSE",
        "CE recovered",
        "KL recovered",
        "dead at end",
        "entries",
        "|J| > .01",
        "|J|/rms > .01",
        "kurtosis",
        "linear / JumpReLU",
        "ablation",
        "tokens/s",
    ];
    let window = comparison.lines.first().and_then(|line| line.evaluation.input.training).map_or(0, |training| training.dead_after_tokens);
    Table {
        head: head.map(String::from).to_vec(),
        rows: rows.collect(),
        note: format!(
            "What enters / what leaves the layer. Dead: silent in the last {window} tokens of training. Entries of a token's block, and how many are above .01 as they are (in units in which both activations have mean norm √d) and over their root mean square. Ablation: correlation of −J with what happens when a decoder row is subtracted."
        ),
    }
}

/// The sections of a comparison: the table, and each pair.
///
/// # Errors
/// Run folders that cannot be read.
pub fn compared_sections(comparison: &PairComparison) -> Result<Vec<Section>, RunError> {
    let mut sections = vec![Section { heading: "Pairs side by side".into(), blocks: vec![Block::Table(table(comparison))] }];
    for line in &comparison.lines {
        let several = comparison.lines.iter().filter(|other| other.name == line.name).count() > 1;
        let name = if several { format!("{}, seed {}", line.name, line.seed) } else { line.name.clone() };
        sections.extend(pair_sections(&name, &RunFolder::read(&line.folder)?.metrics()?, &line.evaluation));
    }
    Ok(sections)
}
