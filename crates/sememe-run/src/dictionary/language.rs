//! The language model with a dictionary in place of the activations it reconstructs: cross-entropy and divergence.
//!
//! On held-out contexts the activation at the target hook is replaced, at the
//! tokens that the dictionary was trained on (not the first, not special ones),
//! by the dictionary's reconstruction, by 0, or by its mean. The model goes on
//! from there. Scores: `crates/sememe/src/dictionary/metric/recovered.rs`.
//!
//! The clean pass, and the passes with 0 and mean, are made once for all
//! dictionaries of the same hooks.

use burn::tensor::{Device, Tensor, TensorData};
use sememe::dictionary::Dictionary;
use sememe::dictionary::metric::{cross_entropy_recovered, divergence_recovered};
use sememe_lm::{Hook, Intervene, LmError, Place, Tokenizer, Tokens, Transformer};
use serde::{Deserialize, Serialize};

use super::config::Config;
use crate::activations::{Activations, ActivationsError, Hooks};
use crate::error::RunError;

/// Scores of the language model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LanguageScores {
    /// Predicted tokens.
    pub tokens: usize,
    /// Nats a token as the model is.
    pub ce_clean: f64,
    /// With the dictionary in place.
    pub ce_dictionary: f64,
    /// With the activation set to 0.
    pub ce_zero: f64,
    /// With the activation set to its mean.
    pub ce_mean: f64,
    /// Mean KL(clean ‖ dictionary), nats a token.
    pub kl_dictionary: f64,
    /// Mean KL(clean ‖ zero).
    pub kl_zero: f64,
    /// `(zero − dictionary)/(zero − clean)`.
    pub ce_recovered: f64,
    /// `(mean − dictionary)/(mean − clean)`.
    pub ce_recovered_mean: f64,
    /// `1 − KL_dictionary/KL_zero`.
    pub kl_recovered: f64,
}

/// Contexts in a pass.
const CONTEXTS: usize = 4;

/// A batch of contexts after the clean pass.
struct Clean {
    tokens: Tokens,
    /// The residual stream before the layer of the first target hook.
    before: Tensor<3>,
    /// Activations at the input hooks and the target hooks, `[B·T, width]`.
    inputs: Vec<Tensor<2>>,
    targets: Vec<Tensor<2>>,
    /// 1 at tokens that are replaced, `[B·T, 1]`.
    replaced: Tensor<2>,
    /// After the last layer.
    end: Tensor<3>,
}

/// Sums over a pass.
#[derive(Clone, Copy, Default)]
struct Sums {
    nats: f64,
    kl: f64,
    tokens: usize,
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.nats += other.nats;
        self.kl += other.kl;
        self.tokens += other.tokens;
    }

    fn mean(self) -> (f64, f64) {
        (self.nats / self.tokens as f64, self.kl / self.tokens as f64)
    }
}

/// A language model that scores dictionaries of some hooks.
pub struct Judge {
    /// The model.
    pub model: Transformer,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    targets: Vec<Hook>,
    clean: Vec<Clean>,
    ce_clean: Sums,
    zero: Sums,
    mean: Sums,
}

/// Puts values in place of activations.
struct Replace<'a> {
    hooks: &'a [Hook],
    values: Vec<Tensor<2>>,
}

impl Intervene for Replace<'_> {
    fn wants(&self, hook: Hook) -> bool {
        self.hooks.contains(&hook)
    }

    fn at(&mut self, hook: Hook, value: Tensor<3>) -> Tensor<3> {
        match self.hooks.iter().position(|known| *known == hook) {
            Some(index) => self.values[index].clone().reshape(value.dims()),
            None => value,
        }
    }
}

impl Judge {
    /// The language model of the config, or of the activations, after its clean passes.
    ///
    /// # Errors
    /// A model that cannot be loaded, or that is not the one whose activations these are.
    pub fn load(config: &Config, source: &Activations, hooks: &Hooks) -> Result<Self, RunError> {
        let given = config.evaluation.model.as_deref().unwrap_or(&source.manifest.model);
        let (model, tokenizer) = sememe_lm::load(given, &Device::flex())?;
        if model.fingerprint() != source.manifest.fingerprint {
            let message = format!("`{given}` is not the model whose activations these are ({}); give that one", source.manifest.model);
            return Err(ActivationsError::Mismatch { path: source.path.clone(), message }.into());
        }
        Self::of(model, tokenizer, config.evaluation.contexts, source, hooks)
    }

    /// The language model that made these activations, after its clean passes over `contexts` held-out contexts.
    ///
    /// # Errors
    /// Held-out contexts that cannot be read.
    pub fn of(model: Transformer, tokenizer: Tokenizer, contexts: usize, source: &Activations, hooks: &Hooks) -> Result<Self, RunError> {
        let named = |hooks: &[(usize, f64)]| -> Vec<Hook> {
            hooks.iter().filter_map(|(hook, _)| source.manifest.hooks[*hook].hook.parse().ok()).collect()
        };
        let inputs = named(&hooks.input);
        let targets = if hooks.target.is_empty() { inputs.clone() } else { named(&hooks.target) };
        let mut judge =
            Self { model, tokenizer, targets, clean: Vec::new(), ce_clean: Sums::default(), zero: Sums::default(), mean: Sums::default() };
        if contexts > 0 {
            judge.clean_passes(contexts, source, &inputs)?;
        }
        Ok(judge)
    }

    fn clean_passes(&mut self, count: usize, source: &Activations, inputs: &[Hook]) -> Result<(), RunError> {
        let held_out = held_out_contexts(source, count)?;
        let first = Hook::new(self.targets.iter().map(|hook| hook.layer).min().unwrap_or(0), Place::ResidPre);
        for rows in held_out.chunks(CONTEXTS) {
            let tokens = Tokens::new(rows);
            let [batch, length] = [tokens.batch(), tokens.length()];
            let wanted: Vec<Hook> = [&[first], inputs, &self.targets].concat();
            let mut keep = Keep { wanted: &wanted, kept: vec![None; wanted.len()] };
            let end = self.model.forward(&tokens, None, &mut keep)?;
            let mut kept = keep.kept.into_iter().flatten();
            let before = kept.next().unwrap_or_else(|| end.clone());
            let mut flat = kept.map(|value| {
                let width = value.dims()[2];
                value.reshape([batch * length, width])
            });
            let inputs = flat.by_ref().take(inputs.len()).collect();
            let targets = flat.collect();
            let left_out = source.manifest.left_out;
            let marks: Vec<f32> = rows
                .iter()
                .flat_map(|row| (0..length).map(move |t| (row, t)))
                .map(|(row, t)| match row.get(t) {
                    Some(&id) if !(left_out.first && t == 0 || left_out.special && self.tokenizer.is_special(id)) => 1.0,
                    _ => 0.0,
                })
                .collect();
            let replaced = Tensor::from_data(TensorData::new(marks, [batch * length, 1]), &self.model.device());
            self.clean.push(Clean { tokens, before, inputs, targets, replaced, end });
        }
        let means = self.means();
        for clean in &self.clean {
            let nats = self.model.nats_of(clean.end.clone(), &clean.tokens);
            self.ce_clean.add(Sums { nats: nats.mean() * nats.count() as f64, kl: 0.0, tokens: nats.count() });
            let zeros = clean.targets.iter().map(|target| target.zeros_like()).collect();
            self.zero.add(self.pass(clean, zeros)?);
            let mean = clean.targets.iter().zip(&means).map(|(target, mean)| target.zeros_like() + mean.clone()).collect();
            self.mean.add(self.pass(clean, mean)?);
        }
        Ok(())
    }

    /// The mean activation at each target hook over the tokens that are replaced, `[1, width]`.
    fn means(&self) -> Vec<Tensor<2>> {
        let count = self.clean.iter().map(|clean| f64::from(clean.replaced.clone().sum().into_scalar::<f32>())).sum::<f64>().max(1.0);
        (0..self.targets.len())
            .filter_map(|hook| {
                let sums = self.clean.iter().map(|clean| (clean.targets[hook].clone() * clean.replaced.clone()).sum_dim(0));
                sums.reduce(|a, b| a + b).map(|sum| sum / count)
            })
            .collect()
    }

    /// The model from the target hooks on, with `values` at the tokens that are replaced.
    fn pass(&self, clean: &Clean, values: Vec<Tensor<2>>) -> Result<Sums, LmError> {
        let keep = clean.replaced.clone() * -1.0 + 1.0;
        let mixed =
            values.into_iter().zip(&clean.targets).map(|(value, target)| value * clean.replaced.clone() + target.clone() * keep.clone());
        let mut replace = Replace { hooks: &self.targets, values: mixed.collect() };
        let first = self.targets.iter().map(|hook| hook.layer).min().unwrap_or(0);
        let end = self.model.resume(clean.before.clone(), first, &mut replace)?;
        let kl = self.model.divergence_of(clean.end.clone(), end.clone(), &clean.tokens);
        let nats = self.model.nats_of(end, &clean.tokens);
        Ok(Sums { nats: nats.mean() * nats.count() as f64, kl: kl.mean() * kl.count() as f64, tokens: nats.count() })
    }

    /// Scores of a dictionary of unscaled activations.
    ///
    /// # Errors
    /// Those of the model.
    pub fn scores(&self, dictionary: &Dictionary, source: &Activations, hooks: &Hooks) -> Result<LanguageScores, RunError> {
        let output = if hooks.target.is_empty() { &hooks.input } else { &hooks.target };
        let widths: Vec<usize> = output.iter().map(|(hook, _)| source.manifest.hooks[*hook].width).collect();
        let mut sums = Sums::default();
        for clean in &self.clean {
            let reconstructed = dictionary.reconstruct(Tensor::cat(clean.inputs.clone(), 1));
            let mut from = 0;
            let values = widths.iter().map(|&width| {
                from += width;
                reconstructed.clone().narrow(1, from - width, width)
            });
            sums.add(self.pass(clean, values.collect())?);
        }
        let (ce_clean, _) = self.ce_clean.mean();
        let ((ce_dictionary, kl_dictionary), (ce_zero, kl_zero), (ce_mean, _)) = (sums.mean(), self.zero.mean(), self.mean.mean());
        Ok(LanguageScores {
            tokens: sums.tokens,
            ce_clean,
            ce_dictionary,
            ce_zero,
            ce_mean,
            kl_dictionary,
            kl_zero,
            ce_recovered: cross_entropy_recovered(ce_clean, ce_dictionary, ce_zero),
            ce_recovered_mean: cross_entropy_recovered(ce_clean, ce_dictionary, ce_mean),
            kl_recovered: divergence_recovered(kl_dictionary, kl_zero),
        })
    }
}

/// Keeps the activations at some hooks, a hook as often as it is wanted.
struct Keep<'a> {
    wanted: &'a [Hook],
    kept: Vec<Option<Tensor<3>>>,
}

impl Intervene for Keep<'_> {
    fn wants(&self, hook: Hook) -> bool {
        self.wanted.contains(&hook)
    }

    fn at(&mut self, hook: Hook, value: Tensor<3>) -> Tensor<3> {
        for (_, kept) in self.wanted.iter().zip(&mut self.kept).filter(|(wanted, _)| **wanted == hook) {
            *kept = Some(value.clone());
        }
        value
    }
}

/// Held-out contexts, spread evenly over those that there are.
fn held_out_contexts(source: &Activations, count: usize) -> Result<Vec<Vec<u32>>, RunError> {
    let mut numbers = std::collections::BTreeSet::new();
    for part in &source.manifest.test {
        numbers.extend(source.shard(part)?.contexts);
    }
    let numbers: Vec<u32> = numbers.into_iter().collect();
    let count = count.min(numbers.len());
    let all = source.contexts()?;
    Ok((0..count).filter_map(|k| all.get(numbers[k * numbers.len() / count] as usize).cloned()).collect())
}
