//! Which tokens a step sees: rows of the context's length, every token once an epoch, as a function of the seed and the step alone.
//!
//! An epoch cuts the stream into rows that share one token with the next (the
//! last of a row is predicted, and then read), from a start of the epoch's own
//! so that rows do not begin at the same tokens each time, and shuffles them.

use rand::Rng;
use rand::seq::SliceRandom;
use sememe_lm::Tokens;
use sememe_truth::random::stream;

/// Batches of a stream of tokens.
pub(super) struct Batches<'a> {
    tokens: &'a [u32],
    seed: u64,
    batch: usize,
    context: usize,
    epoch: Option<usize>,
    starts: Vec<usize>,
}

impl<'a> Batches<'a> {
    /// Batches of `batch` rows of `context` tokens; the stream has at least `context` tokens.
    pub fn new(tokens: &'a [u32], seed: u64, batch: usize, context: usize) -> Self {
        Self { tokens, seed, batch, context, epoch: None, starts: Vec::new() }
    }

    /// Rows an epoch, the same in each.
    fn rows(&self) -> usize {
        // One row less than fit leaves room for the epoch's own start.
        ((self.tokens.len() - 1) / (self.context - 1) - 1).max(1)
    }

    /// Epochs that `steps` steps make.
    pub fn epochs(&self, steps: usize) -> f64 {
        (steps * self.batch) as f64 / self.rows() as f64
    }

    /// The batch of a step.
    pub fn at(&mut self, step: usize) -> Tokens {
        let rows: Vec<Vec<u32>> = (step * self.batch..(step + 1) * self.batch).map(|number| self.row(number)).collect();
        Tokens::new(&rows)
    }

    fn row(&mut self, number: usize) -> Vec<u32> {
        let rows = self.rows();
        let (epoch, within) = (number / rows, number % rows);
        if self.epoch != Some(epoch) {
            let mut random = stream(self.seed, &format!("order/{epoch}"));
            let room = self.tokens.len() - (rows * (self.context - 1) + 1);
            let first = random.random_range(0..=room.min(self.context - 2));
            self.starts = (0..rows).map(|row| first + row * (self.context - 1)).collect();
            self.starts.shuffle(&mut random);
            self.epoch = Some(epoch);
        }
        let start = self.starts[within];
        self.tokens[start..start + self.context].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 30 tokens in rows of 5: 7 fit, 6 are taken, so that an epoch may start at any of 4 tokens.
    #[test]
    fn an_epoch_predicts_every_token_once_and_depends_on_the_step_alone() {
        let tokens: Vec<u32> = (0..30).collect();
        let mut batches = Batches::new(&tokens, 3, 2, 5);
        assert_eq!(batches.rows(), 6);
        assert!((batches.epochs(6) - 2.0).abs() < 1e-12);
        let in_turn: Vec<Tokens> = (0..6).map(|step| batches.at(step)).collect();
        let rows: Vec<&[u32]> = in_turn.iter().flat_map(|batch| batch.ids().chunks(5)).collect();
        for epoch in [&rows[..6], &rows[6..]] {
            let mut predicted: Vec<u32> = epoch.iter().flat_map(|row| row[1..].to_vec()).collect();
            predicted.sort_unstable();
            let first = predicted[0];
            assert!((1..=4).contains(&first));
            assert_eq!(predicted, (first..first + 24).collect::<Vec<_>>());
        }
        assert_ne!(rows[..6], rows[6..]);
        let mut anew = Batches::new(&tokens, 3, 2, 5);
        assert_eq!((anew.at(5), anew.at(1)), (in_turn[5].clone(), in_turn[1].clone()));
    }

    #[test]
    fn a_short_stream_is_one_row() {
        let tokens: Vec<u32> = (0..6).collect();
        let mut batches = Batches::new(&tokens, 0, 1, 6);
        assert_eq!(batches.at(0).ids(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(batches.at(5).ids(), [0, 1, 2, 3, 4, 5]);
    }
}
