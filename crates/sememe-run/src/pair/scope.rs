//! The graph of a trained pair over whatever is asked for: held-out tokens, a text, a token of it.

use std::path::Path;

use burn::tensor::{Device, Tensor};
use sememe::pair::blocks;
use sememe_lm::Tokens;

use super::graph::{Graph, Totals};
use super::open::{Opened, open_run_of};
use crate::activations::Activations;
use crate::dictionary::HeldOut;
use crate::error::RunError;

/// Over what a graph is taken.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphScope {
    /// Held-out tokens, at most so many.
    Corpus(usize),
    /// A text of the user's own; all its tokens, or the one at this position.
    Text(String, Option<usize>),
}

/// The graph of the pair that was trained in `run`.
///
/// # Errors
/// A run that is not finished, a model or activations that are gone, a position that the text does not have.
pub fn graph_of(run: &Path, scope: &GraphScope, edges: usize, model: Option<&str>) -> Result<Graph, RunError> {
    let opened = open_run_of(run, model)?.2;
    let mut totals = Totals::default();
    match scope {
        GraphScope::Corpus(most) => {
            let source: &Activations = &opened.source;
            HeldOut { source, tokens: *most }.each(&opened.hooks, &Device::flex(), &mut |block| {
                add(&mut totals, &opened, block.input, block.target);
                Ok(())
            })?;
            let tokens = totals.tokens;
            Ok(totals.graph(format!("average over {tokens} held-out tokens"), edges))
        }
        GraphScope::Text(text, position) => {
            let ids = [opened.tokenizer.prefix()?, opened.tokenizer.encode(text)?].concat();
            if ids.is_empty() {
                return Err(RunError::Data("the text has no tokens; give some".into()));
            }
            if let Some(position) = position.filter(|&position| position >= ids.len()) {
                return Err(RunError::Data(format!(
                    "--token {position}: the text has {} tokens, 0 to {}",
                    ids.len(),
                    ids.len().saturating_sub(1)
                )));
            }
            let read = opened.model.read(&Tokens::one(ids.clone()), &opened.between)?;
            let rows = |activation: &Tensor<3>| {
                let [_, tokens, width] = activation.dims();
                let all = activation.clone().reshape([tokens, width]);
                // The first token is left out, as in training, unless it is asked for.
                match position {
                    Some(position) => all.narrow(0, *position, 1),
                    None if tokens > 1 => all.narrow(0, 1, tokens - 1),
                    None => all,
                }
            };
            add(&mut totals, &opened, rows(&read[0]), rows(&read[1]));
            let scope = match position {
                Some(position) => format!("token {position}, “{}”, of “{text}”", opened.tokenizer.piece(ids[*position])),
                None => format!("“{text}”"),
            };
            Ok(totals.graph(scope, edges))
        }
    }
}

fn add(totals: &mut Totals, opened: &Opened, x: Tensor<2>, y: Tensor<2>) {
    let (pair, layer) = (&opened.pair, &opened.layer);
    let codes = pair.input.codes(x.clone());
    let reconstructed = pair.input.decode(&codes, &x);
    let (active_x, _) = codes.active();
    let (active_y, _) = pair.output.codes(y).active();
    let found = blocks(layer, reconstructed, pair.input.w_dec.val(), pair.output.w_enc.val(), &active_x, &active_y);
    let values: Vec<f32> = found.entries.to_data().iter::<f32>().map(|j| j * opened.unit as f32).collect();
    totals.add(&found, &values);
}
