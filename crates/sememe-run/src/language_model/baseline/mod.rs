//! Models that only count: what the same tokens are worth without a transformer.

mod kneser_ney;
mod unigram;

pub use kneser_ney::KneserNey;
pub use unigram::Unigram;

use super::HeldOut;

/// Gives every next token a probability.
pub trait Baseline {
    /// What it is called in tables.
    fn name(&self) -> String;

    /// `p(next | history)`, above 0; `history` are all tokens of the document so far.
    fn probability(&self, history: &[u32], next: u32) -> f64;

    /// Nats of all predicted tokens together.
    fn nats(&self, documents: &[HeldOut]) -> f64 {
        let of = |document: &HeldOut| -> f64 {
            let tokens = &document.tokens;
            (1..tokens.len()).map(|at| -self.probability(&tokens[..at], tokens[at]).ln()).sum()
        };
        documents.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream with structure at several distances.
    fn tokens() -> Vec<u32> {
        (0..600_u32).map(|i| [i % 3, (i * i) % 7, i % 5, (i / 4) % 6][i as usize % 4]).collect()
    }

    #[test]
    fn probabilities_sum_to_one_after_any_history() {
        let all: [Box<dyn Baseline>; 3] =
            [Box::new(Unigram::new(&tokens(), 9)), Box::new(KneserNey::new(&tokens(), 3, 9)), Box::new(KneserNey::new(&tokens(), 5, 9))];
        for baseline in all {
            for history in [&[][..], &[1], &[8], &[0, 1], &[2, 4, 1, 0, 3], &[8, 8, 8, 8, 8, 8], &tokens()[..7]] {
                let sum: f64 = (0..9).map(|next| baseline.probability(history, next)).sum();
                assert!((sum - 1.0).abs() < 1e-12, "{} after {history:?}: {sum}", baseline.name());
                assert!((0..9).all(|next| baseline.probability(history, next) > 0.0));
            }
        }
    }
}
