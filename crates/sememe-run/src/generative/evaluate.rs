//! What a trained model has learned: codes of the test samples, the mean |Jacobian|, metrics beside their nulls, and traversals.

use burn::tensor::{Device, Tensor};
use sememe::jacobian::{ColumnChoice, Directions, columns};
use sememe::penalty::std_of_latents;
use sememe::train::Objective;
use sememe_truth::Matrix;
use sememe_truth::metric::{Evidence, Score};
use sememe_truth::random::stream;
use sememe_truth::structure::{Conditioning, Support, Threshold, conditioning, row_ranks};
use sememe_truth::world::Generator;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::config::Config;
use super::data::{Dataset, to_matrix, to_tensor};
use crate::error::RunError;
use crate::folder::{FolderError, RunFolder};

/// A metric's outcome, or why there is none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScoreLine {
    /// The metric's tag.
    pub metric: String,
    /// The score with its null, if what it needs was there.
    pub score: Option<Score>,
    /// Why there is no score.
    pub missing: Option<String>,
}

/// Whether a generator meets what recovery presupposes, on sampled Jacobians with columns scaled by std(z).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct GeneratorCheck {
    /// Singular values: a smallest one of 0 means that the generator is not injective there.
    pub conditioning: Conditioning,
    /// Observed variables whose sampled rows span their dependencies (sufficient nonlinearity).
    pub sufficient_rows: usize,
    /// Observed variables.
    pub rows: usize,
}

impl GeneratorCheck {
    fn of(jacobians: &[Matrix], support: &Support) -> Option<Self> {
        let ranks = row_ranks(jacobians, support, RANK_TOLERANCE);
        let sufficient_rows = ranks.iter().filter(|rank| rank.is_sufficient()).count();
        Some(Self { conditioning: conditioning(jacobians)?, sufficient_rows, rows: ranks.len() })
    }
}

/// Everything that evaluation computes.
#[derive(Debug)]
pub struct Evaluation {
    /// Metrics in the config's order.
    pub scores: Vec<ScoreLine>,
    /// Mean codes of the test samples `[M, dz]`.
    pub codes: Matrix,
    /// Mean over samples of `|J_ij| · std(z_j)`, `[dx, dz]`, in units of the data.
    pub dependency: Matrix,
    /// The world's own, `[dx, dz]`, in the same units, where there is a world.
    pub true_dependency: Option<Matrix>,
    /// The world's generator, where there is one.
    pub true_check: Option<GeneratorCheck>,
    /// The learned generator, with its own structure.
    pub learned_check: Option<GeneratorCheck>,
    /// Standard deviation of each latent's mean code over the test samples: a latent that collapsed has none.
    pub latent_std: Vec<f64>,
    /// Mean squared error of the reconstruction from mean codes, a variable.
    pub reconstruction_error: f64,
    /// Images: for each latent a row of decodings as it runs from −2 to 2 standard deviations, flattened pixels.
    pub traversals: Vec<Vec<Vec<f64>>>,
    /// `[C, H, W]` of the traversals.
    pub image_shape: Option<[usize; 3]>,
    /// Seconds a training step took.
    pub seconds_per_step: Option<f64>,
}

impl Evaluation {
    /// Writes scores and arrays into the run's folder.
    pub fn write(&self, folder: &RunFolder) -> Result<(), FolderError> {
        folder.write_array("codes", &self.codes)?;
        folder.write_array("dependency", &self.dependency)?;
        if let Some(matrix) = &self.true_dependency {
            folder.write_array("true_dependency", matrix)?;
        }
        let summary = json!({
            "scores": self.scores,
            "true_check": self.true_check,
            "learned_check": self.learned_check,
            "latent_std": self.latent_std,
            "reconstruction_error": self.reconstruction_error,
            "seconds_per_step": self.seconds_per_step,
        });
        folder.write_json("evaluation.json", &summary)
    }

    /// The learned structure at a threshold relative to each row's largest entry.
    pub fn support(&self, threshold: f64) -> Option<Support> {
        Support::from_dependency(&self.dependency, Threshold::OfRow(threshold)).ok()
    }

    /// The score of a metric by its tag.
    pub fn score(&self, tag: &str) -> Option<&Score> {
        self.scores.iter().find(|line| line.metric == tag)?.score.as_ref()
    }
}

/// Steps of a traversal.
const TRAVERSAL_STEPS: usize = 9;
/// Samples that are encoded or differentiated at once.
const CHUNK: usize = 500;
/// Jacobians whose singular values and ranks are taken.
const CHECKED_SAMPLES: usize = 100;
/// Singular values of sampled rows below this fraction of the largest count as 0.
const RANK_TOLERANCE: f64 = 1e-3;

/// Evaluates `model` on the test samples of `data`.
pub fn evaluate<M: Objective>(
    config: &Config,
    data: &Dataset,
    model: &M,
    device: &Device,
    seconds_per_step: Option<f64>,
) -> Result<Evaluation, RunError> {
    let plain = device.clone().inner();
    let model = model.valid();
    let test = to_tensor(&data.test, &plain);
    let codes = in_chunks(&test, |x| model.encode(x));
    let reconstruction = in_chunks(&codes, |z| model.decode(z));
    let residual = reconstruction - test.clone();
    let reconstruction_error = f64::from((residual.clone() * residual).mean().into_scalar::<f32>());
    let count = config.evaluation.jacobian_samples.min(codes.dims()[0]);
    let pins = std_of_latents(&codes);
    let dependency = mean_absolute_jacobian(&model, codes.clone().narrow(0, 0, count), &pins);
    let codes_matrix = to_matrix(codes.clone());
    let true_dependency = match (&data.generator, &data.test_latents) {
        (Some(generator), Some(latents)) => Some(true_dependency(generator.as_ref(), latents, count, &data.scale)),
        _ => None,
    };
    let checked = CHECKED_SAMPLES.min(count);
    let true_check = match (&data.generator, &data.test_latents, &data.support) {
        (Some(generator), Some(latents), Some(support)) => {
            GeneratorCheck::of(&true_jacobians(generator.as_ref(), latents, checked, &data.scale).collect::<Vec<_>>(), support)
        }
        _ => None,
    };
    let learned_support = Support::from_dependency(&dependency, Threshold::OfRow(config.evaluation.support_threshold)).ok();
    let learned_check = learned_support
        .and_then(|support| GeneratorCheck::of(&learned_jacobians(&model, codes.clone().narrow(0, 0, checked), &pins), &support));
    let mut scores = Vec::new();
    if let Some(latents) = &data.test_latents {
        let evidence =
            Evidence { latents, codes: &codes_matrix, support: data.support.as_ref(), dependency: Some(&dependency), seed: config.seed };
        for kind in &config.evaluation.metrics {
            let (score, missing) = match kind.member().score(&evidence) {
                Ok(score) => (Some(score), None),
                Err(error) => (None, Some(error.to_string())),
            };
            scores.push(ScoreLine { metric: kind.tag().into(), score, missing });
        }
    }
    let traversals = if data.image_shape.is_some() { traversals(&model, &codes_matrix, &plain) } else { Vec::new() };
    let latent_std = pins.into_data().iter::<f32>().map(f64::from).collect();
    Ok(Evaluation {
        scores,
        codes: codes_matrix,
        dependency,
        true_dependency,
        true_check,
        learned_check,
        latent_std,
        reconstruction_error,
        traversals,
        image_shape: data.image_shape,
        seconds_per_step,
    })
}

fn in_chunks(rows: &Tensor<2>, f: impl Fn(Tensor<2>) -> Tensor<2>) -> Tensor<2> {
    let count = rows.dims()[0];
    let parts = (0..count).step_by(CHUNK).map(|start| f(rows.clone().narrow(0, start, CHUNK.min(count - start))));
    Tensor::cat(parts.collect(), 0)
}

/// `E |J_ij| · std(z_j)`, `[dx, dz]`.
fn mean_absolute_jacobian<M: Objective>(model: &M, latents: Tensor<2>, pins: &Tensor<1>) -> Matrix {
    let [count, dz] = latents.dims();
    let mut unused = stream(0, "evaluate/columns");
    let sums = (0..count).step_by(CHUNK).map(|start| {
        let z = latents.clone().narrow(0, start, CHUNK.min(count - start));
        let directions = Directions::choose(ColumnChoice::All, &z, Some(pins.clone()), &mut unused);
        let dual = columns(model.generator(), z, &directions);
        let [samples, dx] = dual.value.dims();
        dual.tangents.abs().reshape([dz, samples, dx]).sum_dim(1).squeeze_dim::<2>(1)
    });
    let sum = sums.reduce(|a, b| a + b).unwrap_or_else(|| Tensor::zeros([dz, 1], &latents.device()));
    to_matrix((sum / count as f64).transpose())
}

/// The learned Jacobians `J_ij · std(z_j)`, one a sample.
fn learned_jacobians<M: Objective>(model: &M, latents: Tensor<2>, pins: &Tensor<1>) -> Vec<Matrix> {
    let directions = Directions::choose(ColumnChoice::All, &latents, Some(pins.clone()), &mut stream(0, "evaluate/columns"));
    let [count, dz] = latents.dims();
    let tangents = columns(model.generator(), latents, &directions).tangents;
    let dx = tangents.dims()[1];
    let flat: Vec<f32> = tangents.into_data().iter::<f32>().collect();
    (0..count).map(|n| Matrix::from_fn(dx, dz, |i, j| f64::from(flat[(j * count + n) * dx + i]))).collect()
}

/// The world's Jacobians at the first `count` samples, in the units of the (standardised) data: `∂x_i/∂z_j · std(z_j)`.
fn true_jacobians<'a>(
    generator: &'a dyn Generator,
    latents: &'a Matrix,
    count: usize,
    scale: &'a [f64],
) -> impl Iterator<Item = Matrix> + 'a {
    let (dz, n) = (generator.latent_count(), latents.nrows() as f64);
    let std: Vec<f64> = (0..dz)
        .map(|j| {
            let centre = latents.col(j).iter().sum::<f64>() / n;
            (latents.col(j).iter().map(|z| (z - centre).powi(2)).sum::<f64>() / n).sqrt()
        })
        .collect();
    (0..count).map(move |row| {
        let jacobian = generator.jacobian(&(0..dz).map(|j| latents[(row, j)]).collect::<Vec<_>>());
        Matrix::from_fn(jacobian.nrows(), dz, |i, j| jacobian[(i, j)] * std[j] / scale[i])
    })
}

/// The mean of their sizes.
fn true_dependency(generator: &dyn Generator, latents: &Matrix, count: usize, scale: &[f64]) -> Matrix {
    let mut mean = Matrix::zeros(generator.observed_count(), generator.latent_count());
    for jacobian in true_jacobians(generator, latents, count, scale) {
        for i in 0..mean.nrows() {
            for j in 0..mean.ncols() {
                mean[(i, j)] += jacobian[(i, j)].abs() / count as f64;
            }
        }
    }
    mean
}

/// Decodings as each latent runs through ±2 standard deviations around the mean code.
fn traversals<M: Objective>(model: &M, codes: &Matrix, device: &Device) -> Vec<Vec<Vec<f64>>> {
    let (n, dz) = (codes.nrows() as f64, codes.ncols());
    let mean: Vec<f64> = (0..dz).map(|j| codes.col(j).iter().sum::<f64>() / n).collect();
    (0..dz)
        .map(|j| {
            let std = (codes.col(j).iter().map(|z| (z - mean[j]).powi(2)).sum::<f64>() / n).sqrt();
            let z = Matrix::from_fn(TRAVERSAL_STEPS, dz, |step, l| {
                let offset = 4.0 * step as f64 / (TRAVERSAL_STEPS - 1) as f64 - 2.0;
                if l == j { mean[j] + offset * std } else { mean[l] }
            });
            let images = to_matrix(model.decode(to_tensor(&z, device)));
            (0..TRAVERSAL_STEPS).map(|step| (0..images.ncols()).map(|p| images[(step, p)]).collect()).collect()
        })
        .collect()
}
