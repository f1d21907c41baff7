//! A search for the basis of the latents in which the dependencies are sparsest, between steps of training.
//!
//! Gradient descent on a sparsity penalty gets stuck: a decoder that explains
//! the data in rotated latents would have to get worse before it gets better.
//! But all rotations of the latents that it has learned can be compared at
//! once. With codes scaled to variance 1 and J the scaled Jacobian at samples,
//! rows brought to root mean square 1,
//!
//! `F(Q) = Σ_ij ε ln(1 + E|J Q|_ij / ε)` over orthogonal Q
//!
//! is minimised by projected gradient with QR retraction from several starts
//! (the identity among them), and the best basis is absorbed into the last
//! layer of the encoder and the first of the decoder: the model's map of data
//! stays as it is. Nothing of the truth is used.
//!
//! # Source
//! The objective is that of the penalty `log-mean`; optimisation over rotations as in ICA and
//! varimax: Absil, Mahony & Sepulchre 2008, §4.1.1 (QR retraction).

use burn::tensor::{Device, Tensor, TensorData};
use sememe_truth::Matrix;
use sememe_truth::random::stream;
use sememe_truth::world::LatentDistribution;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Objective;
use crate::jacobian::{ColumnChoice, Directions, columns};

/// When and how hard to search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Realign {
    /// Fractions of the steps at which a search is made.
    pub at_fractions: Vec<f64>,
    /// Starting rotations.
    pub starts: usize,
    /// Gradient steps from each start.
    pub iterations: usize,
    /// Samples of the Jacobian.
    pub samples: usize,
    /// ε.
    pub epsilon: f64,
}

impl Default for Realign {
    fn default() -> Self {
        Self { at_fractions: vec![0.1, 0.2, 0.3, 0.45], starts: 24, iterations: 120, samples: 256, epsilon: 0.05 }
    }
}

/// A setting of the search that makes no sense.
#[derive(Debug, Error, PartialEq)]
#[error("training.realign: `{key}` is {got}; {expected}")]
pub struct RealignError {
    key: &'static str,
    got: String,
    expected: &'static str,
}

/// A change of basis `z′ = z F`, `z = z′ B`.
#[derive(Clone, Debug, PartialEq)]
pub struct LatentBasis {
    /// F, `[dz][dz]`.
    pub forward: Vec<Vec<f32>>,
    /// B = F⁻¹, `[dz][dz]`.
    pub backward: Vec<Vec<f32>>,
    /// Mean posterior variance of each new latent, `[dz]`.
    pub variance: Vec<f32>,
}

impl LatentBasis {
    /// F as a tensor `[dz, dz]`.
    pub fn forward(&self, device: &Device) -> Tensor<2> {
        square(&self.forward, device)
    }

    /// B as a tensor `[dz, dz]`.
    pub fn backward(&self, device: &Device) -> Tensor<2> {
        square(&self.backward, device)
    }

    /// ln of the variance, `[dz]`.
    pub fn log_variance(&self, device: &Device) -> Tensor<1> {
        let values: Vec<f32> = self.variance.iter().map(|v| v.max(1e-6).ln()).collect();
        let dz = values.len();
        Tensor::from_data(TensorData::new(values, [dz]), device)
    }
}

fn square(rows: &[Vec<f32>], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(rows.concat(), [rows.len(), rows.len()]), device)
}

/// Samples from which standard deviations are taken.
const SPREAD_SAMPLES: usize = 2048;
/// Length of the first step, in units of √dz.
const FIRST_STEP: f64 = 0.3;

impl Realign {
    /// Refuses settings that make no sense.
    pub fn check(&self) -> Result<(), RealignError> {
        let error = |key, got: String, expected| Err(RealignError { key, got, expected });
        if let Some(fraction) = self.at_fractions.iter().find(|fraction| !(0.0..1.0).contains(*fraction)) {
            return error("at_fractions", fraction.to_string(), "give fractions of the steps, from 0 to below 1");
        }
        for (key, value) in [("starts", self.starts), ("iterations", self.iterations), ("samples", self.samples)] {
            if value == 0 {
                return error(key, "0".into(), "give at least 1");
            }
        }
        if self.epsilon.is_finite() && self.epsilon > 0.0 {
            Ok(())
        } else {
            error("epsilon", self.epsilon.to_string(), "give a finite number above 0")
        }
    }

    /// Whether a search is made before this step.
    pub(super) fn is_due(&self, step: usize, steps: usize) -> bool {
        self.at_fractions.iter().any(|fraction| (fraction * steps as f64).round() as usize == step && step > 0)
    }

    /// The model in the sparsest basis that is found, or as it is when it cannot change basis.
    pub(super) fn apply<M: Objective>(&self, model: M, data: &Tensor<2>, seed: u64, step: usize) -> M {
        let plain = model.valid();
        let x = data.clone().inner();
        let x = x.clone().narrow(0, 0, SPREAD_SAMPLES.min(x.dims()[0]));
        let codes = plain.encode(x.clone());
        let std: Vec<f64> = crate::penalty::std_of_latents(&codes).into_data().iter::<f32>().map(|s| f64::from(s.max(1e-4))).collect();
        let dz = std.len();
        let pins = Tensor::<1>::from_data(TensorData::new(std.iter().map(|&s| s as f32).collect::<Vec<f32>>(), [dz]), &codes.device());
        let z = codes.narrow(0, 0, self.samples.min(x.dims()[0]));
        let directions = Directions::choose(ColumnChoice::All, &z, Some(pins), &mut stream(seed, "realign/columns"));
        let dual = columns(plain.generator(), z, &directions);
        let [samples, dx] = dual.value.dims();
        // [n·dx, dz], sample by sample.
        let jacobian = dual.tangents.reshape([dz, samples * dx]).transpose();
        let q = self.search(&jacobian, samples, dx, seed, step);
        let variance: Vec<f64> = plain.posterior_variance(x).mean_dim(0).into_data().iter::<f32>().map(f64::from).collect();
        let forward = |i: usize, j: usize| q[(i, j)] / std[i];
        let basis = LatentBasis {
            forward: (0..dz).map(|i| (0..dz).map(|j| forward(i, j) as f32).collect()).collect(),
            backward: (0..dz).map(|i| (0..dz).map(|j| (q[(j, i)] * std[j]) as f32).collect()).collect(),
            variance: (0..dz).map(|j| (0..dz).map(|i| variance[i] * forward(i, j).powi(2)).sum::<f64>() as f32).collect(),
        };
        model.clone().in_basis(&basis).unwrap_or(model)
    }

    /// The best Q over all starts, for `jacobian [samples·dx, dz]`.
    fn search(&self, jacobian: &Tensor<2>, samples: usize, dx: usize, seed: u64, step: usize) -> Matrix {
        let dz = jacobian.dims()[1];
        let mean_square = (jacobian.clone() * jacobian.clone()).sum().into_scalar::<f32>() / (samples * dx) as f32;
        let jacobian = jacobian.clone() / f64::from(mean_square.max(1e-12)).sqrt();
        let mut chance = stream(seed, &format!("realign/starts/{step}"));
        let mut starts: Vec<Matrix> =
            (0..self.starts)
                .map(|start| {
                    if start == 0 { Matrix::identity(dz, dz) } else { orthonormal(LatentDistribution::Gaussian.draw(dz, dz, &mut chance)) }
                })
                .collect();
        let mut values = vec![f64::INFINITY; starts.len()];
        for iteration in 0..=self.iterations {
            // All starts side by side: one product [n·dx, dz] × [dz, starts·dz].
            let side_by_side: Vec<f32> =
                (0..dz).flat_map(|i| starts.iter().flat_map(move |q| (0..dz).map(move |j| q[(i, j)] as f32))).collect();
            let width = starts.len() * dz;
            let turned = jacobian.clone().matmul(Tensor::from_data(TensorData::new(side_by_side, [dz, width]), &jacobian.device()));
            let mean = turned.clone().abs().reshape([samples, dx, width]).mean_dim(0);
            let costs: Vec<f32> = ((mean.clone() / self.epsilon).log1p() * self.epsilon).sum_dim(1).into_data().iter::<f32>().collect();
            for (value, costs) in values.iter_mut().zip(costs.chunks(dz)) {
                *value = costs.iter().map(|&c| f64::from(c)).sum();
            }
            if iteration == self.iterations {
                break;
            }
            let slope = (mean / self.epsilon + 1.0).recip();
            let flow = (turned.sign().reshape([samples, dx, width]) * slope).reshape([samples * dx, width]);
            let gradient: Vec<f32> = jacobian.clone().transpose().matmul(flow).into_data().iter::<f32>().collect();
            let length = FIRST_STEP * (1.0 - iteration as f64 / self.iterations as f64).powf(1.5) * (dz as f64).sqrt();
            for (start, q) in starts.iter_mut().enumerate() {
                let euclidean = Matrix::from_fn(dz, dz, |i, j| f64::from(gradient[i * width + start * dz + j]));
                let tangent = q.transpose() * &euclidean;
                let skew = Matrix::from_fn(dz, dz, |i, j| 0.5 * (tangent[(i, j)] - tangent[(j, i)]));
                let riemannian = &*q * skew;
                let norm = riemannian.norm_l2().max(1e-12);
                let moved = Matrix::from_fn(dz, dz, |i, j| q[(i, j)] - length / norm * riemannian[(i, j)]);
                *q = orthonormal(moved);
            }
        }
        let best = (0..starts.len()).min_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0);
        starts.swap_remove(best)
    }
}

/// Orthonormal columns by Gram–Schmidt: the QR retraction with positive diagonal.
fn orthonormal(mut q: Matrix) -> Matrix {
    for j in 0..q.ncols() {
        // Twice, since one pass loses orthogonality when columns are nearly parallel.
        for _ in 0..2 {
            for l in 0..j {
                let dot: f64 = (0..q.nrows()).map(|i| q[(i, j)] * q[(i, l)]).sum();
                (0..q.nrows()).for_each(|i| q[(i, j)] -= dot * q[(i, l)]);
            }
        }
        let norm = (0..q.nrows()).map(|i| q[(i, j)].powi(2)).sum::<f64>().sqrt().max(1e-12);
        (0..q.nrows()).for_each(|i| q[(i, j)] /= norm);
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jacobians of a sparse structure, turned by a random rotation, are turned back up to order and sign.
    #[test]
    fn finds_the_sparse_basis() {
        let device = Device::flex();
        let (samples, dx, dz) = (100, 6, 3);
        let mut chance = stream(3, "test");
        let draw = LatentDistribution::Gaussian.draw(samples * dx, dz, &mut chance);
        // Observed variable i depends on latents i mod 3 and, when i ≥ 3, on the next one too.
        let sparse =
            Matrix::from_fn(
                samples * dx,
                dz,
                |r, j| if j == r % dx % 3 || (r % dx >= 3 && j == (r % dx + 1) % 3) { draw[(r, j)] } else { 0.0 },
            );
        let turn = orthonormal(LatentDistribution::Gaussian.draw(dz, dz, &mut chance));
        let turned = &sparse * &turn;
        let values: Vec<f32> = (0..samples * dx).flat_map(|r| (0..dz).map(|j| turned[(r, j)] as f32).collect::<Vec<_>>()).collect();
        let q = Realign::default().search(&Tensor::from_data(TensorData::new(values, [samples * dx, dz]), &device), samples, dx, 0, 1);
        let back = turn * q;
        for i in 0..dz {
            let largest = (0..dz).map(|j| back[(i, j)].abs()).fold(0.0, f64::max);
            assert!(largest > 0.999, "row {i} of the recovered basis: {largest}");
        }
    }
}
