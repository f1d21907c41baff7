//! How well the model predicts: cross-entropy of each next token in nats, and greedy continuation.

use burn::tensor::{Int, Tensor, TensorData, activation};
use sememe_kernels::forward::cross_entropy;

use crate::hook::{Intervene, Untouched};
use crate::{LmError, Tokens, Transformer};

/// Rows of logits that are held at a time: with a large vocabulary they are the largest tensor of all.
const ROWS: usize = 512;

/// Cross-entropies of a batch's tokens, each given those before it in its row.
#[derive(Clone, Debug, PartialEq)]
pub struct Nats {
    /// For each row, one number for each token but the first.
    pub per_token: Vec<Vec<f32>>,
}

impl Nats {
    /// Predicted tokens.
    pub fn count(&self) -> usize {
        self.per_token.iter().map(Vec::len).sum()
    }

    /// Mean over all predicted tokens, in nats; NaN of none.
    pub fn mean(&self) -> f64 {
        self.per_token.iter().flatten().map(|&nats| f64::from(nats)).sum::<f64>() / self.count() as f64
    }
}

impl Transformer {
    /// Cross-entropies, with interventions on the way.
    ///
    /// # Errors
    /// Those of [`Transformer::forward`].
    pub fn nats_with(&self, tokens: &Tokens, hooks: &mut dyn Intervene) -> Result<Nats, LmError> {
        let hidden = self.forward(tokens, None, hooks)?;
        Ok(self.nats_of(hidden, tokens))
    }

    /// Cross-entropies.
    ///
    /// # Errors
    /// Those of [`Transformer::forward`].
    pub fn nats(&self, tokens: &Tokens) -> Result<Nats, LmError> {
        self.nats_with(tokens, &mut Untouched)
    }

    /// Cross-entropies from the residual stream `[B, T, d]` after the last layer.
    ///
    /// # Panics
    /// When the stream does not belong to the tokens.
    pub fn nats_of(&self, hidden: Tensor<3>, tokens: &Tokens) -> Nats {
        let [batch, length, width] = hidden.dims();
        assert_eq!([batch, length], [tokens.batch(), tokens.length()], "rows and tokens");
        let rows = hidden.reshape([batch * length, width]);
        let spans: Vec<(usize, usize)> = tokens.lengths().iter().enumerate().map(|(row, &own)| (row * length, own)).collect();
        let places: Vec<usize> = spans.iter().flat_map(|&(from, own)| from..(from + own).saturating_sub(1).max(from)).collect();
        let mut all = Vec::with_capacity(places.len());
        for places in places.chunks(ROWS) {
            let targets: Vec<u32> = places.iter().map(|&place| tokens.ids()[place + 1]).collect();
            let index: Vec<i32> = places.iter().map(|&place| place as i32).collect();
            let index: Tensor<1, Int> = Tensor::from_data(TensorData::new(index, [places.len()]), &rows.device());
            let logits = self.unembed(rows.clone().select(0, index));
            all.extend(cross_entropy(logits, &targets).into_data().iter::<f32>());
        }
        let mut all = all.into_iter();
        let per_token = spans.iter().map(|&(_, own)| all.by_ref().take(own.saturating_sub(1)).collect()).collect();
        Nats { per_token }
    }

    /// `KL(p ‖ q)` of the predictions of each next token in nats, p from the residual stream `clean`, q from `other` `[B, T, d]`.
    ///
    /// # Panics
    /// When a stream does not belong to the tokens.
    pub fn divergence_of(&self, clean: Tensor<3>, other: Tensor<3>, tokens: &Tokens) -> Nats {
        let [batch, length, width] = clean.dims();
        assert_eq!([batch, length], [tokens.batch(), tokens.length()], "rows and tokens");
        assert_eq!(clean.dims(), other.dims(), "both streams");
        let (clean, other) = (clean.reshape([batch * length, width]), other.reshape([batch * length, width]));
        let spans: Vec<(usize, usize)> = tokens.lengths().iter().enumerate().map(|(row, &own)| (row * length, own)).collect();
        let places: Vec<usize> = spans.iter().flat_map(|&(from, own)| from..(from + own).saturating_sub(1).max(from)).collect();
        let mut all = Vec::with_capacity(places.len());
        for places in places.chunks(ROWS) {
            let index: Vec<i32> = places.iter().map(|&place| place as i32).collect();
            let index: Tensor<1, Int> = Tensor::from_data(TensorData::new(index, [places.len()]), &clean.device());
            let log = |rows: &Tensor<2>| activation::log_softmax(self.unembed(rows.clone().select(0, index.clone())), 1);
            let (p, q) = (log(&clean), log(&other));
            all.extend((p.clone().exp() * (p - q)).sum_dim(1).into_data().iter::<f32>());
        }
        let mut all = all.into_iter();
        let per_token = spans.iter().map(|&(_, own)| all.by_ref().take(own.saturating_sub(1)).collect()).collect();
        Nats { per_token }
    }

    /// Mean cross-entropy of the predicted tokens as a tensor `[1]` that can be differentiated: the loss of training.
    ///
    /// # Errors
    /// Those of [`Transformer::forward`], or rows of fewer than two tokens throughout.
    pub fn loss(&self, tokens: &Tokens) -> Result<Tensor<1>, LmError> {
        let hidden = self.forward(tokens, None, &mut Untouched)?;
        let [batch, length, width] = hidden.dims();
        let places: Vec<usize> =
            tokens.lengths().iter().enumerate().flat_map(|(row, &own)| (row * length..row * length + own).skip(1)).collect();
        if places.is_empty() {
            return Err(LmError::NoTokens);
        }
        let targets: Vec<u32> = places.iter().map(|&place| tokens.ids()[place]).collect();
        let before: Vec<i32> = places.iter().map(|&place| place as i32 - 1).collect();
        let before: Tensor<1, Int> = Tensor::from_data(TensorData::new(before, [places.len()]), &hidden.device());
        let rows = hidden.reshape([batch * length, width]).select(0, before);
        Ok(cross_entropy(self.unembed(rows), &targets).mean())
    }

    /// The prompt's most likely continuation by at most `count` tokens, token by token, up to one of `stops`.
    ///
    /// # Errors
    /// Those of [`Transformer::forward`].
    pub fn generate(&self, prompt: &[u32], count: usize, stops: &[u32]) -> Result<Vec<u32>, LmError> {
        let mut row = prompt.to_vec();
        for _ in 0..count {
            let hidden = self.forward(&Tokens::one(row.clone()), None, &mut Untouched)?;
            let [_, length, width] = hidden.dims();
            let last = hidden.narrow(1, length - 1, 1).reshape([1, width]);
            let next = self.unembed(last).argmax(1).into_data().iter::<i64>().next().unwrap_or_default() as u32;
            if stops.contains(&next) {
                break;
            }
            row.push(next);
        }
        Ok(row.split_off(prompt.len()))
    }
}
