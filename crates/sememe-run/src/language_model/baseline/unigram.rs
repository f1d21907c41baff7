//! The unigram: every token as often as in the text, whatever came before.
//!
//! `p(w) = (c(w) + 1) / (N + V)`, for N tokens of a vocabulary of V.
//!
//! # Source
//! The added one: Laplace 1814, *Essai philosophique sur les probabilités*.

use super::Baseline;

/// Counts of single tokens.
pub struct Unigram {
    counts: Vec<u64>,
    /// N + V.
    total: f64,
}

impl Unigram {
    /// Counts the stream; its tokens are below `vocabulary`.
    pub fn new(tokens: &[u32], vocabulary: usize) -> Self {
        let mut counts = vec![0; vocabulary];
        for &token in tokens {
            counts[token as usize] += 1;
        }
        Self { counts, total: (tokens.len() + vocabulary) as f64 }
    }
}

impl Baseline for Unigram {
    fn name(&self) -> String {
        "unigram".into()
    }

    fn probability(&self, _history: &[u32], next: u32) -> f64 {
        (self.counts[next as usize] + 1) as f64 / self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_by_hand() {
        let unigram = Unigram::new(&[0, 1, 1, 1], 3);
        for (token, expected) in [(0, 2.0 / 7.0), (1, 4.0 / 7.0), (2, 1.0 / 7.0)] {
            assert!((unigram.probability(&[], token) - expected).abs() < 1e-15);
        }
    }
}
