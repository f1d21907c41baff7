//! Latents as a reader sees them: how often they are active, the contexts in which most, and the tokens that they promote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use rand::seq::SliceRandom;
use sememe::dictionary::{Codes, Dictionary};
use sememe_kernels::Pattern;
use sememe_lm::{Hook, Place};
use sememe_truth::random::stream;
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::evaluate::HeldOut;
use super::language::Judge;
use crate::activations::Hooks;
use crate::error::RunError;

/// A token that a latent promotes or suppresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromotedToken {
    /// Its text.
    pub text: String,
    /// Its logit along the latent's direction.
    pub logit: f32,
}

/// A context in which a latent is active.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextView {
    /// The context's number in the activations.
    pub context: u32,
    /// Where the shown piece begins in it.
    pub from: usize,
    /// The pieces of text, one a token.
    pub pieces: Vec<String>,
    /// The latent's activation at each; 0 where it is silent or the token was left out.
    pub activations: Vec<f32>,
}

/// A latent, seen through held-out text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatentView {
    /// Its number.
    pub latent: usize,
    /// Why it is shown: `strongest` or `random`.
    pub group: String,
    /// Share of tokens at which it is active.
    pub frequency: f64,
    /// Its mean activation where it is active.
    pub mean_active: f64,
    /// Its largest activation.
    pub largest: f64,
    /// Share of Σ z² ‖W_dec‖² over all latents.
    pub share: f64,
    /// Contexts with the largest activations.
    pub contexts: Vec<ContextView>,
    /// The tokens it promotes most, where the target is part of the residual stream.
    pub promoted: Vec<PromotedToken>,
    /// The tokens it suppresses most.
    pub suppressed: Vec<PromotedToken>,
}

/// Sums over tokens for each latent.
pub(super) struct Usage {
    tokens: u64,
    active: Vec<u64>,
    sum: Vec<f64>,
    squares: Vec<f64>,
    largest: Vec<f32>,
}

impl Usage {
    pub fn new(n: usize) -> Self {
        Self { tokens: 0, active: vec![0; n], sum: vec![0.0; n], squares: vec![0.0; n], largest: vec![0.0; n] }
    }

    pub fn accumulate(&mut self, codes: &Codes) {
        let (pattern, values) = codes.active();
        self.tokens += pattern.rows() as u64;
        for (&latent, &value) in pattern.latents().iter().zip(&values).filter(|(_, value)| **value != 0.0) {
            let latent = latent as usize;
            self.active[latent] += 1;
            self.sum[latent] += f64::from(value);
            self.squares[latent] += f64::from(value) * f64::from(value);
            self.largest[latent] = self.largest[latent].max(value);
        }
    }
}

/// Active latents of the tokens of a block.
pub(super) struct Active {
    pattern: Arc<Pattern>,
    values: Vec<f32>,
    contexts: Vec<u32>,
    positions: Vec<u32>,
}

/// The codes of all tokens, as long as they are few enough to be kept; otherwise they are computed again.
#[derive(Default)]
pub(super) struct Kept {
    blocks: Vec<Active>,
    entries: usize,
    is_partial: bool,
}

/// Codes that are kept at most: 256 MiB.
const MOST_ENTRIES: usize = 1 << 25;

impl Kept {
    pub fn keep(&mut self, codes: &Codes, contexts: Vec<u32>, positions: Vec<u32>) {
        if self.is_partial {
            return;
        }
        let (pattern, values) = codes.active();
        self.entries += values.len();
        if self.entries > MOST_ENTRIES {
            (self.blocks, self.is_partial) = (Vec::new(), true);
        } else {
            self.blocks.push(Active { pattern, values, contexts, positions });
        }
    }

    fn each(&self, held_out: &HeldOut<'_>, hooks: &Hooks, dictionary: &Dictionary, show: &mut dyn FnMut(&Active)) -> Result<(), RunError> {
        if !self.is_partial {
            self.blocks.iter().for_each(show);
            return Ok(());
        }
        held_out.each(hooks, &Device::flex(), &mut |block| {
            let (pattern, values) = dictionary.codes(block.input).active();
            show(&Active { pattern, values, contexts: block.contexts, positions: block.positions });
            Ok(())
        })
    }
}

/// Tokens around the strongest one that are shown, before and after it.
const AROUND: (usize, usize) = (24, 12);
/// Tokens that are listed as promoted and as suppressed.
const TOKENS: usize = 8;

/// A context's activations of one latent.
struct Found {
    context: u32,
    largest: f32,
    at: u32,
    active: Vec<(u32, f32)>,
}

/// The strongest latents, and some at random, with their contexts.
pub(super) fn views(
    config: &Config,
    held_out: &HeldOut<'_>,
    hooks: &Hooks,
    dictionary: &Dictionary,
    (usage, kept): (&Usage, &Kept),
    judge: Option<&Judge>,
) -> Result<Vec<LatentView>, RunError> {
    let norms: Vec<f32> = dictionary.decoder_norms().into_data().iter::<f32>().collect();
    let energy: Vec<f64> = usage.squares.iter().zip(&norms).map(|(squares, &norm)| squares * f64::from(norm) * f64::from(norm)).collect();
    let total: f64 = energy.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut order: Vec<usize> = (0..energy.len()).filter(|&latent| usage.active[latent] > 0).collect();
    order.sort_by(|&a, &b| energy[b].total_cmp(&energy[a]).then(a.cmp(&b)));
    let count = config.evaluation.latents;
    let strongest: Vec<usize> = order.iter().copied().take(count).collect();
    let mut rest: Vec<usize> = order.into_iter().skip(count).collect();
    rest.shuffle(&mut stream(config.seed, "evaluation/latents"));
    rest.truncate(count);
    rest.sort_unstable();
    let shown: Vec<(usize, &str)> = strongest.iter().map(|&l| (l, "strongest")).chain(rest.iter().map(|&l| (l, "random"))).collect();
    let found = contexts_of(
        &shown.iter().map(|(latent, _)| *latent).collect::<Vec<_>>(),
        config.evaluation.contexts_per_latent,
        held_out,
        hooks,
        dictionary,
        kept,
    )?;
    let all = if shown.is_empty() { Vec::new() } else { held_out.source.contexts()? };
    let piece = |id: u32| judge.map_or_else(|| format!("⟨{id}⟩"), |judge| judge.tokenizer.piece(id));
    let promoted = promoted(&shown.iter().map(|(latent, _)| *latent).collect::<Vec<_>>(), held_out, hooks, dictionary, judge);
    Ok(shown
        .iter()
        .zip(found)
        .enumerate()
        .map(|(index, (&(latent, group), found))| LatentView {
            latent,
            group: group.into(),
            frequency: usage.active[latent] as f64 / usage.tokens.max(1) as f64,
            mean_active: usage.sum[latent] / usage.active[latent].max(1) as f64,
            largest: f64::from(usage.largest[latent]),
            share: energy[latent] / total,
            contexts: found.iter().filter_map(|found| Some(view(found, all.get(found.context as usize)?, &piece))).collect(),
            promoted: promoted.get(index).map(|(up, _)| up.clone()).unwrap_or_default(),
            suppressed: promoted.get(index).map(|(_, down)| down.clone()).unwrap_or_default(),
        })
        .collect())
}

fn view(found: &Found, ids: &[u32], piece: &dyn Fn(u32) -> String) -> ContextView {
    let at = found.at as usize;
    let (from, to) = (at.saturating_sub(AROUND.0), ids.len().min(at + AROUND.1 + 1));
    let active: BTreeMap<u32, f32> = found.active.iter().copied().collect();
    ContextView {
        context: found.context,
        from,
        pieces: ids[from..to].iter().map(|&id| piece(id)).collect(),
        activations: (from..to).map(|position| active.get(&(position as u32)).copied().unwrap_or(0.0)).collect(),
    }
}

/// Of each latent the contexts with its largest activations, the largest first.
fn contexts_of(
    latents: &[usize],
    count: usize,
    held_out: &HeldOut<'_>,
    hooks: &Hooks,
    dictionary: &Dictionary,
    kept: &Kept,
) -> Result<Vec<Vec<Found>>, RunError> {
    let mut best: Vec<Vec<Found>> = latents.iter().map(|_| Vec::new()).collect();
    // A context can go on in the next block, so each latent's current one is kept open.
    let mut open: Vec<Option<Found>> = latents.iter().map(|_| None).collect();
    let index: BTreeMap<u32, usize> = latents.iter().enumerate().map(|(index, &latent)| (latent as u32, index)).collect();
    let close = |best: &mut Vec<Found>, found: Option<Found>| {
        let Some(found) = found else { return };
        let place = best.partition_point(|other| other.largest >= found.largest);
        best.insert(place, found);
        best.truncate(count);
    };
    kept.each(held_out, hooks, dictionary, &mut |Active { pattern, values, contexts, positions }| {
        for row in 0..pattern.rows() {
            for entry in pattern.range(row) {
                let (Some(&at), value) = (index.get(&pattern.latents()[entry]), values[entry]) else { continue };
                if value == 0.0 {
                    continue;
                }
                let (context, position) = (contexts[row], positions[row]);
                if open[at].as_ref().is_none_or(|found| found.context != context) {
                    close(&mut best[at], open[at].take());
                    open[at] = Some(Found { context, largest: value, at: position, active: Vec::new() });
                }
                if let Some(found) = &mut open[at] {
                    found.active.push((position, value));
                    if value > found.largest {
                        (found.largest, found.at) = (value, position);
                    }
                }
            }
        }
    })?;
    for (best, open) in best.iter_mut().zip(open) {
        close(best, open);
    }
    Ok(best)
}

type Promoted = (Vec<PromotedToken>, Vec<PromotedToken>);

/// The tokens that decoder rows promote and suppress: the logits of the row as if it were the residual stream.
fn promoted(latents: &[usize], held_out: &HeldOut<'_>, hooks: &Hooks, dictionary: &Dictionary, judge: Option<&Judge>) -> Vec<Promoted> {
    let Some(judge) = judge else { return Vec::new() };
    let target = if hooks.target.is_empty() { &hooks.input } else { &hooks.target };
    let hook = match target[..] {
        [(hook, _)] => held_out.source.manifest.hooks[hook].hook.parse::<Hook>().ok(),
        _ => None,
    };
    let in_stream = hook.is_some_and(|hook| !matches!(hook.place, Place::MlpIn | Place::MlpHidden));
    if !in_stream || latents.is_empty() {
        return Vec::new();
    }
    let picked: Vec<i32> = latents.iter().map(|&latent| latent as i32).collect();
    let index = Tensor::from_data(TensorData::new(picked, [latents.len()]), &Device::flex());
    let logits = judge.model.unembed(dictionary.w_dec.val().select(0, index));
    let vocabulary = logits.dims()[1];
    let values: Vec<f32> = logits.into_data().iter::<f32>().collect();
    values
        .chunks(vocabulary)
        .map(|row| {
            let mut order: Vec<u32> = (0..vocabulary as u32).collect();
            order.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]));
            let token = |&id: &u32| PromotedToken { text: judge.tokenizer.piece(id), logit: row[id as usize] };
            let known: BTreeSet<u32> = order.iter().copied().filter(|&id| judge.tokenizer.is_special(id)).collect();
            let plain = |id: &&u32| !known.contains(id);
            (
                order.iter().filter(plain).take(TOKENS).map(token).collect(),
                order.iter().rev().filter(plain).take(TOKENS).map(token).collect(),
            )
        })
        .collect()
}
