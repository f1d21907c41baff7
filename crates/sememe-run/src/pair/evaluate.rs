//! What a trained pair is worth: each dictionary as any other, and the Jacobian between them.

use burn::tensor::{Device, Tensor};
use sememe::pair::metric::{Ablation, Entries, EntryScores, ShapeCounts, THRESHOLDS, ablations, shapes};
use sememe::pair::{Layer, Pair, blocks};
use sememe_truth::random::stream;
use serde::{Deserialize, Serialize};

use super::config::{Config, Side};
use super::graph::{Graph, Totals};
use super::open::unit;
use crate::activations::{Activations, Hooks};
use crate::dictionary::{self, HeldOut, Judge, evaluate};
use crate::error::RunError;
use crate::folder::{FolderError, RunFolder};
use crate::report::Table;

/// Scores of the Jacobian.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JacobianScores {
    /// How many entries matter.
    pub entries: EntryScores,
    /// Whether they predict ablations.
    pub ablation: Ablation,
    /// What the functions between latents look like.
    pub shapes: ShapeCounts,
}

/// Everything that evaluation computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The dictionary of what enters.
    pub input: dictionary::Evaluation,
    /// The dictionary of what leaves.
    pub output: dictionary::Evaluation,
    /// The Jacobian between them.
    pub jacobian: JacobianScores,
    /// The strongest edges, on average over held-out tokens.
    pub graph: Graph,
}

const EVALUATION: &str = "evaluation.json";

impl Evaluation {
    pub(super) fn write(&self, folder: &RunFolder) -> Result<(), FolderError> {
        folder.write_json(EVALUATION, &serde_json::json!(self))
    }

    /// Reads it from the run's folder, if it is there.
    ///
    /// # Errors
    /// A file that is damaged.
    pub fn read(folder: &RunFolder) -> Result<Option<Self>, FolderError> {
        folder.read_json(EVALUATION)
    }

    pub(super) fn side(&self, side: Side) -> &dictionary::Evaluation {
        match side {
            Side::Input => &self.input,
            Side::Output => &self.output,
        }
    }
}

/// Scores a pair of unscaled activations; `layer` is of unscaled ones too.
pub(super) fn evaluate_pair(
    config: &Config,
    source: &Activations,
    hooks: &Hooks,
    (pair, layer): (&Pair, &Layer),
    judges: [&Judge; 2],
) -> Result<Evaluation, RunError> {
    let name = |side: &[(usize, f64)]| source.manifest.hooks[side[0].0].hook.clone();
    let of = |side: Side, judge: &Judge| {
        let (own, dictionary) = match side {
            Side::Input => (&hooks.input, &pair.input),
            Side::Output => (&hooks.target, &pair.output),
        };
        let config = config.of_side(side, &name(own));
        evaluate(&config, source, &Hooks { input: own.clone(), target: Vec::new() }, dictionary, Some(judge))
    };
    let (input, output) = (of(Side::Input, judges[0])?, of(Side::Output, judges[1])?);
    let (jacobian, graph) = jacobian_scores(config, source, hooks, pair, layer)?;
    Ok(Evaluation { input, output, jacobian, graph })
}

fn jacobian_scores(
    config: &Config,
    source: &Activations,
    hooks: &Hooks,
    pair: &Pair,
    layer: &Layer,
) -> Result<(JacobianScores, Graph), RunError> {
    let wanted = &config.jacobian_evaluation;
    let mut entries = Entries::default();
    let mut totals = Totals::default();
    let (mut ablation, mut curves) = (None, None);
    let mut left = wanted.tokens;
    HeldOut { source, tokens: config.evaluation.tokens }.each(hooks, &Device::flex(), &mut |block| {
        let rows = block.input.dims()[0].min(left);
        // Blocks grow with L0²: a few hundred tokens at a time bound the memory.
        for from in (0..rows).step_by(TOKENS) {
            let count = TOKENS.min(rows - from);
            let part = |x: &Tensor<2>| x.clone().narrow(0, from, count);
            let (x, y) = (part(&block.input), part(&block.target));
            let codes = pair.input.codes(x.clone());
            let reconstructed = pair.input.decode(&codes, &x);
            let (active_x, z) = codes.active();
            let (active_y, _) = pair.output.codes(y).active();
            let found = blocks(layer, reconstructed.clone(), pair.input.w_dec.val(), pair.output.w_enc.val(), &active_x, &active_y);
            let values: Vec<f32> = found.entries.to_data().iter::<f32>().map(|j| j * unit(hooks) as f32).collect();
            entries.accumulate(&values, count);
            totals.add(&found, &values);
            if ablation.is_none() {
                let few = count.min(wanted.ablation_tokens.max(1));
                let (x, y) = (active_x.restricted(few, |_| true), active_y.restricted(few, |_| true));
                let some = sememe::pair::Blocks {
                    entries: found.entries.clone().narrow(0, 0, found.starts[few]),
                    starts: found.starts[..=few].to_vec(),
                    x: x.into(),
                    y: y.into(),
                };
                ablation = Some(ablations(layer, pair, &some, &z, &reconstructed));
                let mut draws = stream(config.seed, "pair/curves");
                curves = Some(shapes(layer, pair, (&active_x, &active_y), &z, &reconstructed, wanted.curves, &mut draws));
            }
        }
        left -= rows;
        Ok(())
    })?;
    let (Some(ablation), Some(shapes)) = (ablation, curves) else {
        return Err(RunError::Data(format!("{}: no held-out tokens to evaluate on", source.path.display())));
    };
    Ok((JacobianScores { entries: entries.finish(), ablation, shapes }, totals.graph("average over held-out tokens".into(), wanted.edges)))
}

/// Tokens whose blocks are formed at a time.
const TOKENS: usize = 512;

/// One line a score of the Jacobian, with its definition.
pub fn jacobian_table(scores: &JacobianScores) -> Table {
    let JacobianScores { entries, ablation, shapes } = scores;
    let row = |name: &str, value: String, what: &str| vec![name.to_string(), value, what.to_string()];
    let mut rows = vec![row("entries", format!("{:.0}", entries.block), "of a token's block: active latents in, times active latents out")];
    for (index, threshold) in THRESHOLDS.iter().enumerate() {
        rows.push(row(&format!("|J| > {threshold}"), format!("{:.1}", entries.above[index]), "of these entries, a token"));
    }
    for (index, threshold) in THRESHOLDS.iter().enumerate() {
        let name = format!("|J|/rms > {threshold}");
        rows.push(row(&name, format!("{:.1}", entries.above_normalised[index]), "the same of J over its root mean square"));
    }
    rows.push(row("Σ|J|", format!("{:.3}", entries.l1), "mean over tokens"));
    rows.push(row("kurtosis", format!("{:.1}", entries.kurtosis), "of the entries; 3 for a normal distribution"));
    let share = |value: f64| format!("{:.1} %", 100.0 * value);
    rows.push(row("linear", share(shapes.linear_fraction), "of functions from one latent to another, swept from 0 to twice its value"));
    rows.push(row("JumpReLU-like", share(shapes.jumprelu_fraction), "silent on one side of a threshold, linear on the other"));
    rows.push(row("other", share(shapes.other_fraction), "neither"));
    let number = |value: f64| if value.is_finite() { format!("{value:.3}") } else { "–".into() };
    rows.push(row(
        "ablation, one unit",
        number(ablation.unit_correlation),
        "correlation of −J with what happens when a decoder row is subtracted",
    ));
    rows.push(row("ablation, whole", number(ablation.whole_correlation), "the same of −zJ when the whole latent is taken away"));
    rows.push(row("… predicted", number(ablation.whole_predicted), "share of that change which −zJ predicts; 1 is all"));
    Table {
        head: ["Jacobian", "value", "what it is"].map(String::from).to_vec(),
        rows,
        note: format!(
            "J in units in which both activations have mean norm √d. On {} held-out tokens; {} ablated pairs of latents, {} curves.",
            entries.tokens, ablation.pairs, shapes.curves
        ),
    }
}

/// Both dictionaries and the Jacobian in one table.
pub fn scores_table(evaluation: &Evaluation) -> Table {
    let mut rows = Vec::new();
    for side in Side::BOTH {
        let table = dictionary::scores_table(evaluation.side(side));
        rows.extend(table.rows.into_iter().map(|mut row| {
            row[0] = format!("{}: {}", side.name(), row[0]);
            row
        }));
    }
    let jacobian = jacobian_table(&evaluation.jacobian);
    rows.extend(jacobian.rows);
    Table { head: ["score", "value", "what it is"].map(String::from).to_vec(), rows, note: jacobian.note }
}
