//! The structure of dependencies between latents and observed variables, and what it lets one identify.
//!
//! The dependency structure is a 0/1 matrix `S [dx, dz]`: `S[i,j] = 1` iff
//! `∂g_i/∂z_j ≠ 0` for some z. Everything here follows from S alone.
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, §2–3.

mod atoms;
mod diversity;
mod draw;
mod groups;
mod identifiable;
mod nonlinearity;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Matrix;

pub use atoms::{Atom, Group, atoms, row_groups};
pub use diversity::{Form, Witness, diversity};
pub use draw::draw_sets;
pub use groups::{Comparison, compare};
pub use identifiable::{Verdict, verdicts};
pub use nonlinearity::{Conditioning, RowRank, conditioning, row_ranks};

/// Latents, by index.
pub type Latents = BTreeSet<usize>;

/// Why a matrix is no dependency structure.
#[derive(Debug, Error, PartialEq)]
pub enum SupportError {
    /// No row, or rows of length 0.
    #[error("the support has no {0}; give at least one observed variable and one latent")]
    Empty(&'static str),
    /// Rows of different lengths.
    #[error("row {row} of the support has {got} entries, the first row has {expected}")]
    Ragged {
        /// From 0.
        row: usize,
        /// Its length.
        got: usize,
        /// The first row's.
        expected: usize,
    },
    /// An entry that is not finite.
    #[error("the dependency at row {row}, column {column} is {value}; it must be a finite number")]
    NotFinite {
        /// From 0.
        row: usize,
        /// From 0.
        column: usize,
        /// The entry.
        value: f64,
    },
    /// A group that names an observed variable that does not exist.
    #[error("group `{group}` names observed variable {index}, but indices run from 0 to {last}")]
    GroupIndex {
        /// The group's name.
        group: String,
        /// The index.
        index: usize,
        /// dx − 1.
        last: usize,
    },
    /// A group of nothing.
    #[error("group `{0}` is empty; list at least one observed variable")]
    GroupEmpty(String),
}

/// When an entry of a mean |J| counts as a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Threshold {
    /// Above this number.
    Absolute(f64),
    /// Above this fraction of the largest entry of its row; a row whose largest entry is below a tenth
    /// of the largest of all is measured against that tenth, so that rows of noise have no dependencies.
    OfRow(f64),
    /// Above this fraction of the largest entry of all.
    OfAll(f64),
}

/// The 0/1 dependency structure `S [dx, dz]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<u8>>", into = "Vec<Vec<u8>>")]
pub struct Support {
    rows: Vec<Vec<bool>>,
}

impl Support {
    /// The structure with these rows, one an observed variable.
    pub fn new(rows: Vec<Vec<bool>>) -> Result<Self, SupportError> {
        let Some(first) = rows.first() else { return Err(SupportError::Empty("row")) };
        if first.is_empty() {
            return Err(SupportError::Empty("column"));
        }
        match rows.iter().position(|row| row.len() != first.len()) {
            Some(row) => Err(SupportError::Ragged { row, got: rows[row].len(), expected: first.len() }),
            None => Ok(Self { rows }),
        }
    }

    /// `S[i,j] = entry(i, j)`; dx and dz above 0.
    pub fn from_fn(dx: usize, dz: usize, entry: impl Fn(usize, usize) -> bool) -> Result<Self, SupportError> {
        Self::new((0..dx).map(|i| (0..dz).map(|j| entry(i, j)).collect()).collect())
    }

    /// The entries of a mean |J| `[dx, dz]` above the threshold.
    pub fn from_dependency(dependency: &Matrix, threshold: Threshold) -> Result<Self, SupportError> {
        let (dx, dz) = (dependency.nrows(), dependency.ncols());
        let mut largest_of_all = 0.0_f64;
        for row in 0..dx {
            for column in 0..dz {
                let value = dependency[(row, column)];
                if !value.is_finite() {
                    return Err(SupportError::NotFinite { row, column, value });
                }
                largest_of_all = largest_of_all.max(value.abs());
            }
        }
        Self::from_fn(dx, dz, |i, j| {
            let line = match threshold {
                Threshold::Absolute(line) => line,
                Threshold::OfRow(fraction) => fraction * (0..dz).map(|j| dependency[(i, j)].abs()).fold(0.1 * largest_of_all, f64::max),
                Threshold::OfAll(fraction) => fraction * largest_of_all,
            };
            dependency[(i, j)].abs() > line
        })
    }

    /// dx.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// dz.
    pub fn latents(&self) -> usize {
        self.rows[0].len()
    }

    /// `S[i,j]`.
    pub fn get(&self, i: usize, j: usize) -> bool {
        self.rows[i][j]
    }

    /// `I_i`, the latents on which observed variable i depends.
    pub fn row_set(&self, i: usize) -> Latents {
        (0..self.latents()).filter(|&j| self.rows[i][j]).collect()
    }

    /// The observed variables that depend on latent j.
    pub fn column_set(&self, j: usize) -> BTreeSet<usize> {
        (0..self.rows()).filter(|&i| self.rows[i][j]).collect()
    }

    /// `I_K = { j : S[i,j] = 1 for some i in K }`.
    pub fn index_set(&self, observed: &[usize]) -> Latents {
        (0..self.latents()).filter(|&j| observed.iter().any(|&i| self.rows[i][j])).collect()
    }

    /// The structure with column `order[j]` in place j.
    pub fn with_columns(&self, order: &[usize]) -> Self {
        Self { rows: self.rows.iter().map(|row| order.iter().map(|&j| row[j]).collect()).collect() }
    }

    /// The fraction of ones.
    pub fn density(&self) -> f64 {
        let ones = self.rows.iter().flatten().filter(|&&entry| entry).count();
        ones as f64 / (self.rows() * self.latents()) as f64
    }

    /// Indices of the first row of every distinct row: equal rows say the same.
    pub fn distinct_rows(&self) -> Vec<usize> {
        let mut seen = BTreeSet::new();
        (0..self.rows()).filter(|&i| seen.insert(&self.rows[i])).collect()
    }

    /// As a matrix of 0.0 and 1.0.
    pub fn to_matrix(&self) -> Matrix {
        Matrix::from_fn(self.rows(), self.latents(), |i, j| f64::from(u8::from(self.rows[i][j])))
    }
}

impl TryFrom<Vec<Vec<u8>>> for Support {
    type Error = SupportError;

    fn try_from(rows: Vec<Vec<u8>>) -> Result<Self, SupportError> {
        Self::new(rows.into_iter().map(|row| row.into_iter().map(|entry| entry != 0).collect()).collect())
    }
}

impl From<Support> for Vec<Vec<u8>> {
    fn from(support: Support) -> Self {
        support.rows.into_iter().map(|row| row.into_iter().map(u8::from).collect()).collect()
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let entries: Vec<&str> = row.iter().map(|&entry| if entry { "1" } else { "0" }).collect();
            writeln!(f, "{}", entries.join(" "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) fn support(rows: &[&[u8]]) -> Support {
    Support::try_from(rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>()).expect("rows of one length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_sets_and_thresholds_by_hand() {
        let s = support(&[&[1, 1, 0], &[0, 1, 1], &[0, 1, 1]]);
        assert_eq!(s.index_set(&[0, 1]), BTreeSet::from([0, 1, 2]));
        assert_eq!(s.column_set(1), BTreeSet::from([0, 1, 2]));
        assert_eq!(s.distinct_rows(), [0, 1]);
        let j = faer::mat![[1.0, 0.4, 0.05], [0.0, 0.2, 0.3], [1e-4, 2e-4, 0.0]];
        let by_row = Support::from_dependency(&j, Threshold::OfRow(0.1));
        assert_eq!(by_row, Ok(support(&[&[1, 1, 0], &[0, 1, 1], &[0, 0, 0]])));
        let by_all = Support::from_dependency(&j, Threshold::OfAll(0.25));
        assert_eq!(by_all, Ok(support(&[&[1, 1, 0], &[0, 0, 1], &[0, 0, 0]])));
    }

    #[test]
    fn refuses_what_is_no_structure() {
        assert_eq!(Support::new(vec![]), Err(SupportError::Empty("row")));
        assert_eq!(Support::new(vec![vec![true], vec![]]), Err(SupportError::Ragged { row: 1, got: 0, expected: 1 }));
        let j = faer::mat![[1.0, f64::NAN]];
        assert!(matches!(Support::from_dependency(&j, Threshold::Absolute(0.0)), Err(SupportError::NotFinite { row: 0, column: 1, .. })));
    }
}
