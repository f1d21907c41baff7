//! Which latents are active for which row: a ragged list, kept on the host, and its transpose.

use std::sync::OnceLock;

use rayon::prelude::*;

/// The active latents of each of `rows` rows, row after row, latents rising within a row.
///
/// Entry e of row t stands at `starts[t] ≤ e < starts[t+1]`. Values that belong
/// to the entries are a tensor `[entries]` in the same order.
#[derive(Debug)]
pub struct Pattern {
    starts: Vec<u32>,
    latents: Vec<u32>,
    n: usize,
    by_latent: OnceLock<ByLatent>,
}

/// The same entries grouped by latent, rows rising within a latent.
#[derive(Debug)]
pub(crate) struct ByLatent {
    /// Of each latent, where its entries begin; `n + 1` numbers.
    pub(crate) starts: Vec<u32>,
    /// Positions in the order of [`Pattern`].
    pub(crate) entries: Vec<u32>,
    /// The row of each.
    pub(crate) rows: Vec<u32>,
}

impl Pattern {
    /// A pattern over `n` latents from the starts of its rows and its latents.
    ///
    /// # Panics
    /// When the starts do not rise from 0 to the number of latents, or a latent is not below `n`.
    pub fn new(starts: Vec<u32>, latents: Vec<u32>, n: usize) -> Self {
        let rising = starts.first() == Some(&0) && starts.is_sorted() && starts.last().map(|&end| end as usize) == Some(latents.len());
        assert!(rising, "the rows of a pattern must rise from 0 to its number of entries");
        assert!(latents.iter().all(|&latent| (latent as usize) < n), "a pattern over {n} latents names one that is not below {n}");
        Self { starts, latents, n, by_latent: OnceLock::new() }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of latents that could be active.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of entries, over all rows.
    pub fn entries(&self) -> usize {
        self.latents.len()
    }

    /// Where each row begins, and where the last ends.
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// The latent of each entry.
    pub fn latents(&self) -> &[u32] {
        &self.latents
    }

    /// Positions of the entries of row t.
    pub fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.starts[row] as usize..self.starts[row + 1] as usize
    }

    /// The active latents of row t.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.latents[self.range(row)]
    }

    /// The row of each entry.
    pub fn row_of_entries(&self) -> Vec<u32> {
        (0..self.rows()).flat_map(|row| std::iter::repeat_n(row as u32, self.range(row).len())).collect()
    }

    /// In how many rows each latent is active: `[n]`.
    pub fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.n];
        for &latent in &self.latents {
            counts[latent as usize] += 1;
        }
        counts
    }

    /// The same entries, each row cut at `bounds` (rising latents, the last being n): row t becomes
    /// `bounds.len()` rows, of which number g holds the latents in `bounds[g−1]..bounds[g]`.
    pub fn cut(&self, bounds: &[usize]) -> Self {
        let mut starts = Vec::with_capacity(self.rows() * bounds.len() + 1);
        starts.push(0);
        for row in 0..self.rows() {
            let latents = self.row(row);
            starts
                .extend(bounds.iter().map(|&bound| self.starts[row] + latents.partition_point(|&latent| (latent as usize) < bound) as u32));
        }
        Self { starts, latents: self.latents.clone(), n: self.n, by_latent: OnceLock::new() }
    }

    /// The same entries over the latents that occur, renumbered in their order; and which these are.
    pub fn compact(&self) -> (Self, Vec<u32>) {
        let counts = self.counts();
        let kept: Vec<u32> = (0..self.n as u32).filter(|&latent| counts[latent as usize] > 0).collect();
        let mut number = vec![0; self.n];
        kept.iter().enumerate().for_each(|(new, &latent)| number[latent as usize] = new as u32);
        let latents = self.latents.iter().map(|&latent| number[latent as usize]).collect();
        (Self { starts: self.starts.clone(), latents, n: kept.len(), by_latent: OnceLock::new() }, kept)
    }

    /// The first `rows` rows, with the latents that `keeps` takes.
    #[must_use]
    pub fn restricted(&self, rows: usize, keeps: impl Fn(u32) -> bool) -> Self {
        let (mut starts, mut latents) = (vec![0], Vec::new());
        for row in 0..rows.min(self.rows()) {
            latents.extend(self.row(row).iter().copied().filter(|&latent| keeps(latent)));
            starts.push(latents.len() as u32);
        }
        Self { starts, latents, n: self.n, by_latent: OnceLock::new() }
    }

    pub(crate) fn by_latent(&self) -> &ByLatent {
        self.by_latent.get_or_init(|| {
            let mut starts = vec![0_u32; self.n + 1];
            for &latent in &self.latents {
                starts[latent as usize + 1] += 1;
            }
            for latent in 0..self.n {
                starts[latent + 1] += starts[latent];
            }
            let mut next = starts.clone();
            let (mut entries, mut rows) = (vec![0; self.latents.len()], vec![0; self.latents.len()]);
            for row in 0..self.rows() {
                for entry in self.range(row) {
                    let at = &mut next[self.latents[entry] as usize];
                    entries[*at as usize] = entry as u32;
                    rows[*at as usize] = row as u32;
                    *at += 1;
                }
            }
            ByLatent { starts, entries, rows }
        })
    }

    /// `f(row, its entries' slice)` over all rows in parallel, each with its own part of `values [entries]`.
    pub(crate) fn par_rows_mut<'a>(&'a self, values: &'a mut [f32]) -> impl IndexedParallelIterator<Item = (usize, &'a mut [f32])> {
        let mut parts = Vec::with_capacity(self.rows());
        let mut rest = values;
        for row in 0..self.rows() {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(self.range(row).len());
            parts.push((row, part));
            rest = after;
        }
        parts.into_par_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transpose_and_cut_by_hand() {
        let pattern = Pattern::new(vec![0, 2, 2, 5], vec![1, 3, 0, 1, 2], 4);
        let by = pattern.by_latent();
        assert_eq!(by.starts, [0, 1, 3, 4, 5]);
        assert_eq!(by.entries, [2, 0, 3, 4, 1]);
        assert_eq!(by.rows, [2, 0, 2, 2, 0]);
        assert_eq!(pattern.counts(), [1, 2, 1, 1]);
        assert_eq!(pattern.row_of_entries(), [0, 0, 2, 2, 2]);
        assert_eq!(pattern.cut(&[2, 4]).starts(), [0, 1, 2, 2, 2, 4, 5]);
        let first = pattern.restricted(2, |latent| latent != 0);
        assert_eq!((first.starts(), first.latents(), first.n()), (&[0, 2, 2][..], &[1, 3][..], 4));
        let (compact, kept) = first.compact();
        assert_eq!((compact.latents(), compact.n(), &kept[..]), (&[0, 1][..], 2, &[1, 3][..]));
    }
}
