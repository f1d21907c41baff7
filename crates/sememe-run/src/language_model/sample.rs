//! Continuations of a text: the likeliest token each time, or one drawn from the model's distribution.
//!
//! A token w is drawn with probability `softmax(logits/τ)_w`; τ → 0 takes the likeliest.

use burn::tensor::activation::softmax;
use rand::Rng;
use sememe_lm::{Tokens, Transformer, Untouched};
use sememe_truth::random::Stream;

use crate::error::RunError;

/// At most `count` tokens that follow `prompt`, up to the token `end`; the model sees the last `context` tokens each time.
pub(super) fn draw(
    model: &Transformer,
    prompt: &[u32],
    count: usize,
    context: usize,
    end: u32,
    temperature: f64,
    random: &mut Stream,
) -> Result<Vec<u32>, RunError> {
    let mut row = prompt.to_vec();
    for _ in 0..count {
        let seen = row[row.len().saturating_sub(context)..].to_vec();
        let hidden = model.forward(&Tokens::one(seen), None, &mut Untouched)?;
        let [_, length, width] = hidden.dims();
        let logits = model.unembed(hidden.narrow(1, length - 1, 1).reshape([1, width]));
        let probabilities: Vec<f32> = softmax(logits / temperature, 1).into_data().iter::<f32>().collect();
        let next = pick(&probabilities, random.random::<f64>());
        if next == end {
            break;
        }
        row.push(next);
    }
    Ok(row.split_off(prompt.len()))
}

/// The first token at which the sum of the probabilities passes `u`, from 0 to below 1.
fn pick(probabilities: &[f32], u: f64) -> u32 {
    let mut left = u;
    let passed = probabilities.iter().position(|&p| {
        left -= f64::from(p);
        left < 0.0
    });
    // Rounding may leave the sum just below 1.
    passed.unwrap_or(probabilities.len() - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_by_hand() {
        for (u, expected) in [(0.0, 1), (0.24, 1), (0.26, 2), (0.99, 3), (0.999_999_99, 3)] {
            assert_eq!(pick(&[0.0, 0.25, 0.5, 0.249_999], u), expected, "{u}");
        }
    }
}
