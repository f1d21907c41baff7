//! Linear assignment: the matching of rows to columns with the largest total, for any rectangular matrix.
//!
//! # Source
//! Kuhn 1955; the O(n³) shortest-augmenting-path form with potentials of Jonker & Volgenant 1987.

use crate::Matrix;

/// For each row its column, of the matching with the largest sum; with more rows than columns some rows have none.
pub fn largest_assignment(gain: &Matrix) -> Vec<Option<usize>> {
    let (rows, columns) = (gain.nrows(), gain.ncols());
    if rows > columns {
        let by_column = largest_assignment(&gain.transpose().to_owned());
        let mut by_row = vec![None; rows];
        for (column, row) in by_column.into_iter().enumerate() {
            if let Some(row) = row {
                by_row[row] = Some(column);
            }
        }
        return by_row;
    }
    // Columns are counted from 1; column 0 holds the row that is being placed.
    let cost = |row: usize, column: usize| -gain[(row - 1, column - 1)];
    let (mut u, mut v) = (vec![0.0; rows + 1], vec![0.0; columns + 1]);
    let mut row_of = vec![0; columns + 1];
    for row in 1..=rows {
        row_of[0] = row;
        let mut column = 0;
        let mut least = vec![f64::INFINITY; columns + 1];
        let mut before = vec![0; columns + 1];
        let mut visited = vec![false; columns + 1];
        while row_of[column] != 0 {
            visited[column] = true;
            let (at, mut delta, mut next) = (row_of[column], f64::INFINITY, 0);
            for candidate in 1..=columns {
                if visited[candidate] {
                    continue;
                }
                let reduced = cost(at, candidate) - u[at] - v[candidate];
                if reduced < least[candidate] {
                    (least[candidate], before[candidate]) = (reduced, column);
                }
                if least[candidate] < delta {
                    (delta, next) = (least[candidate], candidate);
                }
            }
            for c in 0..=columns {
                if visited[c] {
                    u[row_of[c]] += delta;
                    v[c] -= delta;
                } else {
                    least[c] -= delta;
                }
            }
            column = next;
        }
        while column != 0 {
            row_of[column] = row_of[before[column]];
            column = before[column];
        }
    }
    let mut result = vec![None; rows];
    for column in 1..=columns {
        if row_of[column] > 0 {
            result[row_of[column] - 1] = Some(column - 1);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn best_by_trying(gain: &Matrix, row: usize, used: &mut Vec<bool>) -> f64 {
        if row == gain.nrows() {
            return 0.0;
        }
        (0..gain.ncols())
            .map(|c| {
                if std::mem::replace(&mut used[c], true) {
                    return f64::NEG_INFINITY;
                }
                let total = gain[(row, c)] + best_by_trying(gain, row + 1, used);
                used[c] = false;
                total
            })
            .fold(f64::NEG_INFINITY, f64::max)
    }

    proptest! {
        #[test]
        fn no_matching_is_better(rows in 1..5_usize, extra in 0..3_usize, values in proptest::collection::vec(-5.0..5.0_f64, 35)) {
            let gain = Matrix::from_fn(rows, rows + extra, |i, j| values[i * (rows + extra) + j]);
            let total = |g: &Matrix, found: &[Option<usize>]| found.iter().enumerate().filter_map(|(i, c)| c.map(|c| g[(i, c)])).sum::<f64>();
            let best = best_by_trying(&gain, 0, &mut vec![false; rows + extra]);
            prop_assert!((total(&gain, &largest_assignment(&gain)) - best).abs() < 1e-9);
            let turned = gain.transpose().to_owned();
            prop_assert!((total(&turned, &largest_assignment(&turned)) - best).abs() < 1e-9);
        }
    }
}
