//! The shuffle buffer: tokens of many documents, of which a random half leaves whenever it is full.
//!
//! When the buffer holds its capacity, all of it is permuted at random and the
//! last half leaves. A token stays while later ones pass it, so neighbours in
//! the text end up far apart, whatever the order of the documents.
//! The permutation is a function of (seed, how often the buffer was emptied).

use rand::Rng;
use sememe_truth::random::stream;

use super::Chunk;

/// Tokens that wait, in memory that is stated beforehand.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub chunk: Chunk,
    pub capacity: usize,
    /// How often it was permuted.
    pub emissions: usize,
    row_bytes: Vec<usize>,
    seed: u64,
}

impl Buffer {
    /// Of at most `bytes`, and at least two tokens, of rows so wide at each hook.
    pub fn new(bytes: usize, row_bytes: Vec<usize>, seed: u64) -> Self {
        let token = row_bytes.iter().sum::<usize>() + 3 * size_of::<u32>();
        Self { chunk: Chunk::new(row_bytes.len()), capacity: (bytes / token).max(2), emissions: 0, row_bytes, seed }
    }

    /// Whether no more fits.
    pub fn is_full(&self) -> bool {
        self.chunk.len() >= self.capacity
    }

    /// Permutes everything; the rows from the returned index on may leave: half, or all of them at the end.
    pub fn permute(&mut self, is_last: bool) -> usize {
        let mut draw = stream(self.seed, &format!("activations/shuffle/{}", self.emissions));
        self.emissions += 1;
        for last in (1..self.chunk.len()).rev() {
            let other = draw.random_range(0..=last);
            self.chunk.swap(last, other, &self.row_bytes);
        }
        if is_last { 0 } else { self.chunk.len() / 2 }
    }

    /// Drops the rows from `from` on, which have left.
    pub fn leave(&mut self, from: usize) {
        self.chunk.truncate(from, &self.row_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every token leaves once, and neighbours of the text are far apart: as far as in a random order of the buffer.
    #[test]
    fn all_leave_once_and_neighbours_part() {
        let mut buffer = Buffer::new(1000 * 16, vec![4], 3);
        assert_eq!(buffer.capacity, 1000);
        let mut left = Vec::new();
        for token in 0..10_000_u32 {
            if buffer.is_full() {
                let from = buffer.permute(false);
                left.extend_from_slice(&buffer.chunk.token_ids[from..]);
                buffer.leave(from);
            }
            buffer.chunk.activations[0].extend(token.to_le_bytes());
            for list in [&mut buffer.chunk.token_ids, &mut buffer.chunk.contexts, &mut buffer.chunk.positions] {
                list.push(token);
            }
        }
        let from = buffer.permute(true);
        let bytes = buffer.chunk.activations[0].as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        assert!(bytes.eq(buffer.chunk.token_ids.iter().copied()), "rows move together");
        left.extend_from_slice(&buffer.chunk.token_ids[from..]);
        let mut place = vec![usize::MAX; 10_000];
        left.iter().enumerate().for_each(|(at, &token)| place[token as usize] = at);
        assert!(place.iter().all(|&at| at < 10_000) && left.len() == 10_000);
        let apart = place.windows(2).map(|pair| pair[0].abs_diff(pair[1]) as f64).sum::<f64>() / 9999.0;
        assert!(apart > 250.0, "neighbours are {apart} apart on average");
    }
}
