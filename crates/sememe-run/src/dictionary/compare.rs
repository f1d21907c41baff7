//! Several dictionaries on the same activations: harvested once, trained one after the other, scored the same way, in one table.
//!
//! Beside them stand two nulls that go through the same scores: the k first
//! principal components, and k random orthonormal directions.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use sememe::dictionary::DictionaryKind;
use sememe::dictionary::metric::{Covariance, Similarity, linear_dictionary, similarity};
use serde::{Deserialize, Serialize};

use super::config::{Config, DataConfig, EvaluationConfig};
use super::evaluate::{Evaluation, HeldOut, evaluate};
use super::language::Judge;
use super::page::{dictionary_sections, points};
use super::run::{checked, train};
use crate::activations::{Activations, HarvestConfig, Harvested, harvest};
use crate::atomic;
use crate::config::{Checked, OutputConfig};
use crate::error::RunError;
use crate::folder::{FolderError, RunFolder};
use crate::interop::native::open;
use crate::report::{Block, Page, Section, Table};
use crate::start::{Outcome, RunOptions};
use sememe::dictionary::DictionaryPlan;

/// One dictionary of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name in the table.
    pub name: String,
    /// The dictionary.
    pub dictionary: DictionaryKind,
    /// Other training than the comparison's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<DictionaryPlan>,
    /// Seeds; of several, the table holds the first, and how alike they are.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
}

fn one_seed() -> Vec<u64> {
    vec![0]
}

/// Everything that determines a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonConfig {
    /// One line for reports and listings.
    pub about: String,
    /// What is harvested, if the folder of activations is not there yet.
    pub harvest: HarvestConfig,
    /// Which of the hooks are used, where it is not the only one.
    #[serde(default)]
    pub data: DataConfig,
    /// Training of each dictionary.
    #[serde(default)]
    pub training: DictionaryPlan,
    /// How each is scored.
    #[serde(default)]
    pub evaluation: EvaluationConfig,
    /// How often the runs report and save.
    #[serde(default)]
    pub output: OutputConfig,
    /// Active directions of the nulls.
    pub null_k: usize,
    /// The dictionaries.
    pub run: Vec<Entry>,
}

impl Checked for ComparisonConfig {
    fn check(&self) -> Result<(), String> {
        self.harvest.check().map_err(|error| error.to_string())?;
        if self.run.is_empty() {
            return Err("no [[run]]; give at least one dictionary".into());
        }
        if self.null_k == 0 {
            return Err("`null_k` is 0; give at least 1".into());
        }
        for entry in &self.run {
            if entry.seeds.is_empty() {
                return Err(format!("run `{}` has no seeds; give at least one", entry.name));
            }
            if entry.name.is_empty() || entry.name.contains(['/', '\\']) || entry.name.starts_with('.') {
                return Err(format!("run `{}`: give a name that can be a folder's", entry.name));
            }
            self.config_of(entry, 0, Path::new("activations")).check().map_err(|error| format!("run `{}`: {error}", entry.name))?;
        }
        Ok(())
    }
}

impl ComparisonConfig {
    fn config_of(&self, entry: &Entry, seed: u64, activations: &Path) -> Config {
        Config {
            about: format!("{}, on the activations of {}.", entry.name, self.harvest.hooks.join(", ")),
            seed,
            data: DataConfig { activations: Some(activations.into()), ..self.data.clone() },
            dictionary: entry.dictionary.clone(),
            training: entry.training.clone().unwrap_or_else(|| self.training.clone()),
            evaluation: self.evaluation.clone(),
            output: self.output.clone(),
        }
    }
}

/// A line of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The dictionary's name, or the null's.
    pub name: String,
    /// Its scores.
    pub evaluation: Evaluation,
    /// How alike its first two seeds are.
    pub similarity: Option<(f64, f64)>,
    /// Its run's folder; none of a null.
    pub folder: Option<PathBuf>,
}

/// All lines.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Dictionaries, then nulls.
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
    config: &ComparisonConfig,
    out: &Path,
    activations: Option<&Path>,
    options: &RunOptions,
) -> Result<Option<Comparison>, RunError> {
    let folder = activations.map_or_else(|| out.join("activations"), Path::to_path_buf);
    std::fs::create_dir_all(out).map_err(|source| FolderError::Io { path: out.into(), source })?;
    let has_some = folder.join("activations.json").is_file();
    let source = match harvest(
        &config.harvest,
        &folder,
        (has_some && !options.overwrite, options.overwrite),
        options.verbosity,
        &options.interrupt,
    )? {
        Harvested::Finished(source) => *source,
        Harvested::Interrupted { .. } => return Ok(None),
    };
    let first = config.config_of(&config.run[0], 0, &folder);
    let (source, hooks) = checked(&first, source)?;
    let judge = Judge::load(&first, &source, &hooks)?;
    let mut lines = Vec::new();
    for entry in &config.run {
        let mut runs = Vec::new();
        for &seed in &entry.seeds {
            let own = config.config_of(entry, seed, &folder);
            let path = out.join(if entry.seeds.len() > 1 { format!("{}-seed{seed}", entry.name) } else { entry.name.clone() });
            let Some(evaluation) = one(&own, &path, options, &judge)? else { return Ok(None) };
            runs.push((path, evaluation));
        }
        let similarity = match &runs[..] {
            [(a, _), (b, _), ..] => {
                let decoder = |path: &Path| open(path, &Device::flex()).map(|(dictionary, _)| dictionary.w_dec.val());
                let Similarity { mmcs, hungarian_cosine } = similarity(decoder(a)?, decoder(b)?);
                Some((mmcs, hungarian_cosine))
            }
            _ => None,
        };
        let (path, evaluation) = runs.swap_remove(0);
        lines.push(Line { name: entry.name.clone(), evaluation, similarity, folder: Some(path) });
    }
    lines.extend(nulls(config, &first, &source, &judge)?);
    let comparison = Comparison { lines, report: out.join("report.html") };
    write(config, out, &comparison)?;
    Ok(Some(comparison))
}

/// Trains one dictionary, or goes on with it, or takes what is there.
fn one(config: &Config, path: &Path, options: &RunOptions, judge: &Judge) -> Result<Option<Evaluation>, RunError> {
    if !options.overwrite && path.join("manifest.json").is_file() {
        let folder = RunFolder::read(path)?;
        if folder.read_config()? == config.to_toml()? {
            if folder.manifest()?.finished
                && let Some(evaluation) = Evaluation::read(&folder)?
            {
                return Ok(Some(evaluation));
            }
            let options = RunOptions { resume: true, ..options.clone() };
            return finished(train(config, path, &options, Some(judge))?);
        }
    }
    finished(train(config, path, &RunOptions { overwrite: path.exists(), resume: false, ..options.clone() }, Some(judge))?)
}

fn finished(outcome: Outcome<Evaluation>) -> Result<Option<Evaluation>, RunError> {
    Ok(match outcome {
        Outcome::Finished(evaluation) => Some(*evaluation),
        Outcome::Interrupted { .. } => None,
    })
}

/// Principal components and random directions, as dictionaries.
fn nulls(config: &ComparisonConfig, first: &Config, source: &Activations, judge: &Judge) -> Result<Vec<Line>, RunError> {
    let (source, hooks) = checked(first, source.clone())?;
    if hooks.input.len() > 1 || !hooks.target.is_empty() {
        return Ok(Vec::new());
    }
    let width = source.manifest.hooks[hooks.input[0].0].width;
    let mut covariance = Covariance::new(width);
    HeldOut { source: &source, tokens: first.evaluation.tokens }.each(&hooks, &Device::flex(), &mut |block| {
        covariance.accumulate(&block.target);
        Ok(())
    })?;
    let k = config.null_k.min(width);
    let Some(components) = covariance.principal_components(k) else { return Ok(Vec::new()) };
    let own = Config { evaluation: EvaluationConfig { latents: 0, ..first.evaluation.clone() }, ..first.clone() };
    let mut lines = Vec::new();
    for (name, directions) in [("PCA", components), ("random directions", covariance.random_directions(k, 0))] {
        let dictionary = linear_dictionary(&directions, &covariance.mean(), &Device::flex())?;
        let evaluation = evaluate(&own, &source, &hooks, &dictionary, Some(judge))?;
        lines.push(Line { name: format!("null: {k} {name}"), evaluation, similarity: None, folder: None });
    }
    Ok(lines)
}

fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

/// One line a dictionary.
pub fn table(comparison: &Comparison) -> Table {
    let rows = comparison.lines.iter().map(|line| {
        let Evaluation { scores, language, training, .. } = &line.evaluation;
        let of = |value: Option<f64>| value.filter(|value| value.is_finite()).map_or("–".into(), |value| format!("{value:.3}"));
        vec![
            line.name.clone(),
            format!("{:.1}", scores.l0),
            format!("{:.4}", scores.nmse),
            of(language.map(|language| language.ce_dictionary)),
            of(language.map(|language| language.ce_recovered)),
            of(language.map(|language| language.kl_recovered)),
            if line.folder.is_some() { percent(scores.dead_fraction) } else { "–".into() },
            training.map_or("–".into(), |training| training.dead.to_string()),
            line.similarity.map_or("–".into(), |(mmcs, hungarian)| format!("{mmcs:.2} / {hungarian:.2}")),
            training.and_then(|training| training.tokens_per_second).map_or("–".into(), |rate| format!("{rate:.0}")),
        ]
    });
    let first = comparison.lines.first().map(|line| &line.evaluation);
    let language = first.and_then(|evaluation| evaluation.language);
    let tokens = first.map_or(0, |evaluation| evaluation.scores.tokens);
    let window = first.and_then(|evaluation| evaluation.training).map_or(0, |training| training.dead_after_tokens);
    let mut note = format!(
        "NMSE around the mean, on {tokens} held-out tokens; dead: silent in these; dead at end: silent in the last {window} tokens of training (the first line's window); seeds alike: MMCS / Hungarian cosine of two seeds."
    );
    if let Some(language) = language {
        note += &format!(
            " CE of the language model: {:.3} clean, {:.3} with the activation at 0, {:.3} at its mean ({} tokens).",
            language.ce_clean, language.ce_zero, language.ce_mean, language.tokens
        );
    }
    let head = ["dictionary", "L0", "NMSE", "CE", "CE recovered", "KL recovered", "dead", "dead at end", "seeds alike", "tokens/s"];
    Table { head: head.map(String::from).to_vec(), rows: rows.collect(), note }
}

/// The sections of a comparison: table, trade-off, and each dictionary.
///
/// # Errors
/// Run folders that cannot be read.
pub fn compared_sections(comparison: &Comparison) -> Result<Vec<Section>, RunError> {
    let pairs = |y: &dyn Fn(&Evaluation) -> Option<f64>| -> Vec<(String, f64, f64)> {
        comparison.lines.iter().filter_map(|line| Some((line.name.clone(), line.evaluation.scores.l0, y(&line.evaluation)?))).collect()
    };
    let mut sections = vec![Section {
        heading: "Dictionaries side by side".into(),
        blocks: vec![
            Block::Table(table(comparison)),
            Block::Row(vec![
                points("NMSE over L0", "L0", "NMSE", pairs(&|evaluation| Some(evaluation.scores.nmse))),
                points("CE recovered over L0", "L0", "CE recovered", pairs(&|evaluation| Some(evaluation.language?.ce_recovered))),
            ]),
        ],
    }];
    for line in &comparison.lines {
        if let Some(folder) = &line.folder {
            sections.extend(dictionary_sections(&line.name, &RunFolder::read(folder)?.metrics()?, &line.evaluation));
        }
    }
    Ok(sections)
}

fn write(config: &ComparisonConfig, out: &Path, comparison: &Comparison) -> Result<(), RunError> {
    let title = out.file_name().map_or_else(|| "comparison".into(), |name| name.to_string_lossy().into_owned());
    let page = Page { title, subtitle: config.about.clone(), sections: compared_sections(comparison)? };
    let json = serde_json::to_vec_pretty(&comparison.lines).map_err(|error| RunError::Data(error.to_string()))?;
    for (path, bytes) in [(comparison.report.clone(), page.to_html().into_bytes()), (out.join("comparison.json"), json)] {
        atomic::write(&path, &bytes).map_err(|source| FolderError::Io { path, source })?;
    }
    Ok(())
}
