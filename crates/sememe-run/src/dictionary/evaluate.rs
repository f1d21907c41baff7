//! What a trained dictionary is worth on held-out activations: reconstruction, nulls, the language model's loss, and its latents.

use burn::tensor::{Device, Tensor, TensorData};
use sememe::dictionary::Dictionary;
use sememe::dictionary::metric::{Covariance, Nulls, Reconstruction, Scores, collinearity};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::config::Config;
use super::language::{Judge, LanguageScores};
use super::latents::{Kept, LatentView, Usage, views};
use crate::activations::{Activations, Chunk, Hooks};
use crate::error::RunError;
use crate::folder::{FolderError, RunFolder};
use crate::report::Table;

/// What training left behind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Tokens a second, everything included.
    pub tokens_per_second: Option<f64>,
    /// Latents that were silent for `dead_after_tokens` at the end of training.
    pub dead: usize,
    /// T.
    pub dead_after_tokens: usize,
    /// Tokens that it saw.
    pub tokens: usize,
}

impl Training {
    fn window(&self) -> String {
        let Self { dead_after_tokens, tokens, .. } = self;
        if dead_after_tokens > tokens {
            format!("no latent can be: the window of {dead_after_tokens} tokens is longer than the training of {tokens}")
        } else {
            format!("latents silent in the last {dead_after_tokens} tokens of training")
        }
    }
}

/// Everything that evaluation computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Reconstruction and sparsity.
    pub scores: Scores,
    /// What k components and k random directions explain, k being the mean L0.
    pub nulls: Option<Nulls>,
    /// Mean over latents of the largest |cosine| to another decoder row.
    pub collinearity: f64,
    /// The language model with the dictionary in place.
    pub language: Option<LanguageScores>,
    /// Why there are no scores of the language model.
    pub language_missing: Option<String>,
    /// Some latents.
    pub latents: Vec<LatentView>,
    /// The run's training.
    pub training: Option<Training>,
}

const EVALUATION: &str = "evaluation.json";
/// Rows that are encoded at a time.
const ROWS: usize = 2048;

impl Evaluation {
    /// Writes it into the run's folder.
    pub(super) fn write(&self, folder: &RunFolder) -> Result<(), FolderError> {
        folder.write_json(EVALUATION, &json!(self))
    }

    /// Reads it from the run's folder, if it is there.
    ///
    /// # Errors
    /// A file that is damaged.
    pub fn read(folder: &RunFolder) -> Result<Option<Self>, FolderError> {
        folder.read_json(EVALUATION)
    }
}

/// Held-out activations at some hooks as they are, in blocks of at most [`ROWS`] tokens in the order of the text.
pub(crate) struct HeldOut<'a> {
    pub source: &'a Activations,
    /// Tokens at most.
    pub tokens: usize,
}

/// Which tokens a block holds: context and position of each.
pub(crate) struct Block {
    pub input: Tensor<2>,
    pub target: Tensor<2>,
    pub contexts: Vec<u32>,
    pub positions: Vec<u32>,
}

impl HeldOut<'_> {
    /// Shows every block.
    pub fn each(&self, hooks: &Hooks, device: &Device, show: &mut dyn FnMut(Block) -> Result<(), RunError>) -> Result<(), RunError> {
        let mut left = self.tokens;
        for part in &self.source.manifest.test {
            let chunk = self.source.shard(part)?;
            let rows = chunk.len().min(left);
            for from in (0..rows).step_by(ROWS) {
                let to = rows.min(from + ROWS);
                let input = self.tensor(&chunk, &hooks.input, (from, to), device);
                let target = if hooks.target.is_empty() { input.clone() } else { self.tensor(&chunk, &hooks.target, (from, to), device) };
                show(Block { input, target, contexts: chunk.contexts[from..to].to_vec(), positions: chunk.positions[from..to].to_vec() })?;
            }
            left -= rows;
        }
        Ok(())
    }

    fn tensor(&self, chunk: &Chunk, hooks: &[(usize, f64)], (from, to): (usize, usize), device: &Device) -> Tensor<2> {
        let unscaled: Vec<(usize, f64)> = hooks.iter().map(|(hook, _)| (*hook, 1.0)).collect();
        let width: usize = hooks.iter().map(|(hook, _)| self.source.manifest.hooks[*hook].width).sum();
        let mut values = vec![0.0; (to - from) * width];
        (from..to).for_each(|row| crate::activations::fill_row(self.source, chunk, row, &unscaled, row - from, &mut values));
        Tensor::from_data(TensorData::new(values, [to - from, width]), device)
    }
}

/// Scores `dictionary`, which is one of unscaled activations.
pub(crate) fn evaluate(
    config: &Config,
    source: &Activations,
    hooks: &Hooks,
    dictionary: &Dictionary,
    judge: Option<&Judge>,
) -> Result<Evaluation, RunError> {
    if source.manifest.test_tokens() == 0 {
        return Err(RunError::Data(format!(
            "{}: no held-out tokens to evaluate on; harvest longer text, with a larger --test-fraction, or with another seed",
            source.path.display()
        )));
    }
    let device = Device::flex();
    let held_out = HeldOut { source, tokens: config.evaluation.tokens };
    let output = dictionary.widths().output;
    let (mut seen, mut covariance) = (Reconstruction::new(dictionary.n(), output), Covariance::new(output));
    let mut usage = Usage::new(dictionary.n());
    let mut kept = Kept::default();
    held_out.each(hooks, &device, &mut |block| {
        let codes = dictionary.codes(block.input.clone());
        let reconstructed = dictionary.decode(&codes, &block.input);
        seen.accumulate(&block.target, &reconstructed, &codes, None);
        covariance.accumulate(&block.target);
        usage.accumulate(&codes);
        kept.keep(&codes, block.contexts, block.positions);
        Ok(())
    })?;
    let scores = seen.finish();
    let nulls = covariance.nulls((scores.l0.round() as usize).max(1), config.seed);
    let (own, mut language_missing) = match judge {
        Some(_) => (None, None),
        None => match Judge::load(config, source, hooks) {
            Ok(judge) => (Some(judge), None),
            Err(RunError::Lm(error)) if config.evaluation.model.is_none() => (None, Some(format!("{error} (or give --model)"))),
            Err(error) => return Err(error),
        },
    };
    let judge = judge.or(own.as_ref());
    let language = match judge {
        Some(judge) if config.evaluation.contexts > 0 => Some(judge.scores(dictionary, source, hooks)?),
        Some(_) => {
            language_missing = Some("evaluation.contexts is 0".into());
            None
        }
        None => None,
    };
    let latents = views(config, &held_out, hooks, dictionary, (&usage, &kept), judge)?;
    let collinearity = collinearity(dictionary.w_dec.val());
    Ok(Evaluation { scores, nulls, collinearity, language, language_missing, latents, training: None })
}

fn number(value: f64) -> String {
    if !value.is_finite() {
        "–".into()
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

/// One line a score, with its definition.
pub fn scores_table(evaluation: &Evaluation) -> Table {
    let Evaluation { scores, nulls, language, training, .. } = evaluation;
    let mut rows: Vec<[String; 3]> = vec![
        ["L0".into(), number(scores.l0), "active latents a token".into()],
        ["L1".into(), number(scores.l1), "sum of activations a token".into()],
        ["NMSE".into(), number(scores.nmse), "squared error over variance around the mean".into()],
        ["NMSE0".into(), number(scores.nmse0), "squared error over squared norm (flatters a large mean)".into()],
        ["cosine".into(), number(scores.cosine), "of activation and reconstruction".into()],
        ["norm ratio".into(), number(scores.norm_ratio), "norm of the reconstruction over that of the activation".into()],
        [
            "dead".into(),
            format!("{:.2} %", 100.0 * scores.dead_fraction),
            format!("of the latents, silent in {} held-out tokens", scores.tokens),
        ],
        ["collinearity".into(), number(evaluation.collinearity), "mean over latents of the largest |cosine| to another".into()],
    ];
    if let Some(training) = training {
        rows.push(["dead at the end".into(), training.dead.to_string(), training.window()]);
    }
    if let Some(nulls) = nulls {
        rows.push(["null: PCA".into(), number(nulls.pca_nmse), format!("NMSE of the first {} principal components", nulls.k)]);
        rows.push(["null: random".into(), number(nulls.random_nmse), format!("NMSE of {} random directions", nulls.k)]);
    }
    if let Some(language) = language {
        rows.push([
            "CE clean".into(),
            number(language.ce_clean),
            format!("nats a token of the language model, {} tokens", language.tokens),
        ]);
        rows.push(["CE dictionary".into(), number(language.ce_dictionary), "with the reconstruction in place".into()]);
        rows.push(["CE zero".into(), number(language.ce_zero), "with the activation set to 0".into()]);
        rows.push(["CE mean".into(), number(language.ce_mean), "with the activation set to its mean".into()]);
        rows.push(["CE recovered".into(), number(language.ce_recovered), "against zero ablation; 1 is no loss".into()]);
        rows.push(["CE recovered, mean".into(), number(language.ce_recovered_mean), "against mean ablation".into()]);
        rows.push(["KL recovered".into(), number(language.kl_recovered), "share of KL(clean‖zero) that is avoided".into()]);
    }
    let mut note = format!("Held-out tokens: {}. Left out: first tokens of contexts and special tokens, as in training.", scores.tokens);
    if let Some(missing) = &evaluation.language_missing {
        note += &format!(" No scores of the language model: {missing}");
    }
    Table { head: ["score", "value", "what it is"].map(String::from).to_vec(), rows: rows.into_iter().map(Vec::from).collect(), note }
}
