//! Gradient-boosted regression trees on histograms.
//!
//! For squared error, each round fits a tree of small depth to the residuals
//! and adds `rate` times its predictions. A node is split at the bin edge that
//! most lowers the squared error: with sums S and counts C on either side the
//! gain is `S_L²/C_L + S_R²/C_R − S²/C`. Inputs are cut into equal-count bins.
//!
//! # Source
//! Friedman 2001, *Greedy function approximation*, algorithm 2; histograms as in Ke et al. 2017.

use rayon::prelude::*;

use super::Regressor;
use crate::Matrix;

/// Boosted trees, one ensemble an output.
#[derive(Clone, Debug)]
pub struct BoostedTrees {
    /// Trees.
    pub rounds: usize,
    /// Shrinkage of each tree.
    pub rate: f64,
    /// Splits from root to leaf.
    pub depth: usize,
}

impl Default for BoostedTrees {
    fn default() -> Self {
        Self { rounds: 100, rate: 0.1, depth: 3 }
    }
}

const BINS: usize = 64;
/// Samples that a leaf holds at least.
const LEAF: usize = 5;

enum Node {
    Split { input: usize, edge: f64, children: Box<(Node, Node)> },
    Leaf(f64),
}

impl Node {
    fn predict(&self, x: &[f64]) -> f64 {
        match self {
            Self::Leaf(value) => *value,
            Self::Split { input, edge, children } => {
                if x[*input] <= *edge {
                    children.0.predict(x)
                } else {
                    children.1.predict(x)
                }
            }
        }
    }
}

struct Binned {
    /// `bins[input][sample]`.
    bins: Vec<Vec<u8>>,
    /// The upper edge of each bin but the last.
    edges: Vec<Vec<f64>>,
}

impl Binned {
    fn new(inputs: &Matrix) -> Self {
        let (bins, edges) = (0..inputs.ncols())
            .map(|j| {
                let column: Vec<f64> = inputs.col(j).iter().copied().collect();
                let mut sorted = column.clone();
                sorted.sort_by(f64::total_cmp);
                let mut edges: Vec<f64> = (1..BINS).map(|b| sorted[b * sorted.len() / BINS]).collect();
                edges.dedup();
                let bins = column.iter().map(|x| edges.partition_point(|edge| edge < x) as u8).collect();
                (bins, edges)
            })
            .unzip();
        Self { bins, edges }
    }

    fn grow(&self, residual: &[f64], samples: Vec<usize>, depth: usize) -> Node {
        let (sum, count) = (samples.iter().map(|&n| residual[n]).sum::<f64>(), samples.len() as f64);
        let leaf = Node::Leaf(if samples.is_empty() { 0.0 } else { sum / count });
        if depth == 0 || samples.len() < 2 * LEAF {
            return leaf;
        }
        let mut best: Option<(f64, usize, usize)> = None;
        for (input, bins) in self.bins.iter().enumerate() {
            let (mut sums, mut counts) = ([0.0; BINS], [0_usize; BINS]);
            for &n in &samples {
                let bin = usize::from(bins[n]);
                sums[bin] += residual[n];
                counts[bin] += 1;
            }
            let (mut left_sum, mut left_count) = (0.0, 0);
            for bin in 0..self.edges[input].len() {
                left_sum += sums[bin];
                left_count += counts[bin];
                let right_count = samples.len() - left_count;
                if left_count < LEAF || right_count < LEAF {
                    continue;
                }
                let right_sum = sum - left_sum;
                let gain = left_sum * left_sum / left_count as f64 + right_sum * right_sum / right_count as f64 - sum * sum / count;
                if gain > best.map_or(1e-12, |best| best.0) {
                    best = Some((gain, input, bin));
                }
            }
        }
        let Some((_, input, bin)) = best else { return leaf };
        let (left, right) = samples.into_iter().partition(|&n| usize::from(self.bins[input][n]) <= bin);
        Node::Split {
            input,
            edge: self.edges[input][bin],
            children: Box::new((self.grow(residual, left, depth - 1), self.grow(residual, right, depth - 1))),
        }
    }
}

impl Regressor for BoostedTrees {
    fn fit_predict(&self, inputs: &Matrix, targets: &Matrix, test_inputs: &Matrix) -> Matrix {
        let rows = |m: &Matrix| -> Vec<Vec<f64>> { (0..m.nrows()).map(|i| (0..m.ncols()).map(|j| m[(i, j)]).collect()).collect() };
        let (train, test) = (rows(inputs), rows(test_inputs));
        let binned = Binned::new(inputs);
        let columns: Vec<Vec<f64>> = (0..targets.ncols())
            .into_par_iter()
            .map(|output| {
                let target: Vec<f64> = targets.col(output).iter().copied().collect();
                let mean = target.iter().sum::<f64>() / target.len().max(1) as f64;
                let mut residual: Vec<f64> = target.iter().map(|t| t - mean).collect();
                let mut predicted = vec![mean; test.len()];
                for _ in 0..self.rounds {
                    let tree = binned.grow(&residual, (0..residual.len()).collect(), self.depth);
                    residual.iter_mut().zip(&train).for_each(|(r, x)| *r -= self.rate * tree.predict(x));
                    predicted.iter_mut().zip(&test).for_each(|(p, x)| *p += self.rate * tree.predict(x));
                }
                predicted
            })
            .collect();
        Matrix::from_fn(test.len(), columns.len(), |i, j| columns[j][i])
    }
}
