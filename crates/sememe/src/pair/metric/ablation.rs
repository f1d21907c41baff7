//! Whether the Jacobian predicts what happens when a latent is taken away.
//!
//! At a token with active latent a, the decoder row `D_a` is subtracted from
//! x̂ (one unit of the latent), or `z_a D_a` (the whole of it), and the layer is
//! run again. To first order the pre-activation of latent b moves by `−J[b, a]`,
//! or `−z_a J[b, a]`. Agreement is the correlation of the two over all pairs of
//! active latents, and the share of the change that is predicted,
//! `1 − Σ(Δ + z J)² / Σ Δ²`.
//!
//! # Source
//! Farnik et al. 2025, arXiv 2502.18147, §5.3.

use burn::tensor::{Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::pair::{Blocks, Layer, Pair};

/// Agreement of Jacobian and ablation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ablation {
    /// Pairs of active latents that were compared.
    pub pairs: usize,
    /// Pearson correlation when one unit is taken away.
    pub unit_correlation: f64,
    /// Share of the change that is predicted, when one unit is taken away.
    pub unit_predicted: f64,
    /// Correlation when the whole latent is taken away.
    pub whole_correlation: f64,
    /// Share that is predicted when the whole latent is taken away.
    pub whole_predicted: f64,
}

/// Sums over pairs of predicted and seen changes.
#[derive(Default)]
struct Sums {
    count: f64,
    sums: [f64; 5],
    missed: f64,
}

impl Sums {
    fn add(&mut self, predicted: f64, seen: f64) {
        self.count += 1.0;
        let terms = [predicted, seen, predicted * predicted, seen * seen, predicted * seen];
        self.sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
        self.missed += (seen - predicted).powi(2);
    }

    fn correlation(&self) -> f64 {
        let [p, s, pp, ss, ps] = self.sums.map(|sum| sum / self.count);
        (ps - p * s) / ((pp - p * p) * (ss - s * s)).sqrt()
    }

    fn predicted(&self) -> f64 {
        1.0 - self.missed / self.sums[3]
    }
}

/// Ablates every active latent of every token: `z` are the values at the entries of `blocks.x`, `reconstructed [N, d]` is x̂.
pub fn ablations(layer: &Layer, pair: &Pair, blocks: &Blocks, z: &[f32], reconstructed: &Tensor<2>) -> Ablation {
    let (mut unit, mut whole) = (Sums::default(), Sums::default());
    let entries: Vec<f32> = blocks.entries.to_data().iter::<f32>().collect();
    let (decoder, encoder) = (pair.input.w_dec.val(), pair.output.w_enc.val());
    let rows_of = |matrix: &Tensor<2>, latents: &[u32]| {
        let at: Vec<i32> = latents.iter().map(|&latent| latent as i32).collect();
        matrix.clone().select(0, Tensor::<1, Int>::from_data(TensorData::new(at, [latents.len()]), &matrix.device()))
    };
    for token in 0..blocks.x.rows() {
        let (x, y) = (blocks.x.row(token), blocks.y.row(token));
        if x.is_empty() || y.is_empty() {
            continue;
        }
        let values = &z[blocks.x.range(token)];
        let here = reconstructed.clone().narrow(0, token, 1);
        let directions = rows_of(&decoder, x);
        let readers = rows_of(&encoder, y);
        let factors = Tensor::<1>::from_floats(values, &here.device()).unsqueeze_dim::<2>(1);
        let moved = Tensor::cat(vec![here.clone(), here.clone() - directions.clone(), here - directions * factors], 0);
        // [1 + 2 k_x, k_y]
        let read: Vec<f32> = layer.apply(moved).matmul(readers.transpose()).into_data().iter::<f32>().collect();
        let block = &entries[blocks.starts[token]..blocks.starts[token + 1]];
        for a in 0..x.len() {
            for b in 0..y.len() {
                let seen = |row: usize| f64::from(read[row * y.len() + b]) - f64::from(read[b]);
                let j = f64::from(block[b * x.len() + a]);
                unit.add(-j, seen(1 + a));
                whole.add(-j * f64::from(values[a]), seen(1 + x.len() + a));
            }
        }
    }
    Ablation {
        pairs: unit.count as usize,
        unit_correlation: unit.correlation(),
        unit_predicted: unit.predicted(),
        whole_correlation: whole.correlation(),
        whole_predicted: whole.predicted(),
    }
}
