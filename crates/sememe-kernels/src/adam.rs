//! One Adam step over a parameter, its gradient and its two moments in a single pass over memory.
//!
//! With gradient g (scaled by c, the clipping's factor), step t and rates β₁, β₂:
//! `m ← β₁ m + (1−β₁) c g`, `v ← β₂ v + (1−β₂) c² g²`,
//! `θ ← θ − lr · (m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + ε)`.
//!
//! With unit rows (`θ [n, d]`, each row w of norm 1) the same pass takes
//! `g − (g·w) w` for g, so that the moments hold no component along the row,
//! and divides w by its norm after the step.
//!
//! # Source
//! Kingma & Ba 2015, arXiv 1412.6980, algorithm 1. Unit rows: Bricken et al. 2023, *Towards monosemanticity*, appendix on
//! the autoencoder's training.

use burn::tensor::Tensor;
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use crate::dispatch::{dense, is_fused};
use crate::lanes::wide;

/// The numbers of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// β₁.
    pub beta1: f64,
    /// β₂.
    pub beta2: f64,
    /// ε, added after the square root.
    pub epsilon: f64,
    /// t, from 1.
    pub step: usize,
    /// c, the factor on the gradient; 1 without clipping.
    pub gradient_scale: f64,
    /// The length of rows that are kept at norm 1, where they are.
    pub unit_rows: Option<usize>,
}

/// m and v, each of the parameter's shape.
#[derive(Clone, Debug)]
pub struct AdamMoments<const D: usize> {
    /// First moment m.
    pub first: Tensor<D>,
    /// Second moment v.
    pub second: Tensor<D>,
}

impl<const D: usize> AdamMoments<D> {
    /// m = v = 0, of the shape of `parameter`.
    pub fn zeros_like(parameter: &Tensor<D>) -> Self {
        Self { first: parameter.zeros_like(), second: parameter.zeros_like() }
    }
}

/// The parameter and moments after one step; tensors without autodiff, all of one shape.
///
/// # Panics
/// When the parameter cannot be cut into rows of `unit_rows`.
pub fn adam_step<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    moments: AdamMoments<D>,
    step: AdamStep,
) -> (Tensor<D>, AdamMoments<D>) {
    if let Some(width) = step.unit_rows {
        assert!(width > 0 && parameter.shape().num_elements().is_multiple_of(width), "the parameter has no rows of {width}");
    }
    if is_fused(&parameter) && !parameter.device().is_autodiff() {
        let fused = (
            parameter.clone().try_into_primitive::<Flex>(),
            gradient.clone().try_into_primitive::<Flex>(),
            moments.first.clone().try_into_primitive::<Flex>(),
            moments.second.clone().try_into_primitive::<Flex>(),
        );
        if let (Ok(theta), Ok(g), Ok(m), Ok(v)) = fused {
            // The handles above share their storage; it must be owned once to be updated in place.
            drop((parameter, gradient, moments));
            return fused_step(theta, g, m, v, step);
        }
    }
    plain_step(parameter, gradient, moments, step)
}

/// `Σ g²` in double precision, of the part of g across the unit rows of `parameter` where `unit_rows` gives their length.
pub fn squared_norm(gradient: &Tensor<1>, parameter: &Tensor<1>, unit_rows: Option<usize>) -> f64 {
    let without = |t: &Tensor<1>| if t.device().is_autodiff() { t.clone().inner() } else { t.clone() };
    let (gradient, parameter) = (without(gradient), without(parameter));
    if is_fused(&gradient) && is_fused(&parameter) {
        let fused = (gradient.clone().try_into_primitive::<Flex>(), parameter.clone().try_into_primitive::<Flex>());
        if let (Ok(g), Ok(w)) = fused {
            let (g, w) = (dense(g), dense(w));
            let width = unit_rows.unwrap_or(CHUNK);
            // Summed in the order of the rows, so that the number of threads does not matter.
            let parts: Vec<f64> = g
                .storage::<f32>()
                .par_chunks(width)
                .zip(w.storage::<f32>().par_chunks(width))
                .with_min_len(CHUNK.div_ceil(width))
                .map(|(g, w)| {
                    let (mut square, mut along) = (0.0, 0.0);
                    dot(g, g, &mut square);
                    if unit_rows.is_some() {
                        dot(g, w, &mut along);
                    }
                    f64::from(square) - f64::from(along) * f64::from(along)
                })
                .collect();
            return parts.into_iter().sum::<f64>().max(0.0);
        }
    }
    let gradient = match unit_rows {
        Some(width) => across_rows(gradient, parameter, width),
        None => gradient,
    };
    f64::from((gradient.clone() * gradient).sum().into_scalar::<f32>())
}

/// `g − (g·w) w`, row by row of `width`.
fn across_rows<const D: usize>(gradient: Tensor<D>, parameter: Tensor<D>, width: usize) -> Tensor<D> {
    let dims = gradient.dims();
    let rows = gradient.shape().num_elements() / width;
    let (g, w) = (gradient.reshape([rows, width]), parameter.reshape([rows, width]));
    let along = (g.clone() * w.clone()).sum_dim(1);
    (g - w * along).reshape(dims)
}

fn correction(step: AdamStep) -> (f64, f64) {
    let t = i32::try_from(step.step).unwrap_or(i32::MAX);
    (1.0 - step.beta1.powi(t), 1.0 - step.beta2.powi(t))
}

/// The step's numbers as the loops use them.
#[derive(Clone, Copy)]
pub(crate) struct Rates {
    beta1: f32,
    beta2: f32,
    /// `lr/(1−β₁ᵗ)`.
    rate: f32,
    /// `1/(1−β₂ᵗ)`.
    inv_c2: f32,
    epsilon: f32,
    /// c.
    scale: f32,
}

wide! {
    /// One step over a run of numbers; `along` is taken off the gradient in the direction of θ.
    fn advance(theta: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32], rates: Rates, along: f32) {
        for (((theta, m), v), &g) in theta.iter_mut().zip(m).zip(v).zip(g) {
            let g = rates.scale * (g - along * *theta);
            *m = rates.beta1 * *m + (1.0 - rates.beta1) * g;
            *v = rates.beta2 * *v + (1.0 - rates.beta2) * g * g;
            *theta -= rates.rate * *m / ((*v * rates.inv_c2).sqrt() + rates.epsilon);
        }
    }
}

/// Partial sums of a dot product.
const LANES: usize = 32;

wide! {
    /// `out = a · b`.
    fn dot(a: &[f32], b: &[f32], out: &mut f32) {
        let mut sums = [0.0_f32; LANES];
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        for (a, b) in a.iter().zip(b) {
            for i in 0..LANES {
                sums[i] += a[i] * b[i];
            }
        }
        let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
        *out = rest + sums.iter().sum::<f32>();
    }
}

wide! {
    /// `values ← factor · values`.
    fn scale(values: &mut [f32], factor: f32) {
        values.iter_mut().for_each(|value| *value *= factor)
    }
}

/// Numbers a task of the thread pool: enough to repay its start.
const CHUNK: usize = 1 << 14;

fn fused_step<const D: usize>(
    mut theta: FlexTensor,
    g: FlexTensor,
    mut m: FlexTensor,
    mut v: FlexTensor,
    step: AdamStep,
) -> (Tensor<D>, AdamMoments<D>) {
    let g = dense(g);
    (theta, m, v) = (dense(theta), dense(m), dense(v));
    let (c1, c2) = correction(step);
    let rates = Rates {
        beta1: step.beta1 as f32,
        beta2: step.beta2 as f32,
        rate: (step.learning_rate / c1) as f32,
        inv_c2: (1.0 / c2) as f32,
        epsilon: step.epsilon as f32,
        scale: step.gradient_scale as f32,
    };
    let width = step.unit_rows.unwrap_or(CHUNK);
    theta
        .storage_mut::<f32>()
        .par_chunks_mut(width)
        .zip(m.storage_mut::<f32>().par_chunks_mut(width))
        .zip(v.storage_mut::<f32>().par_chunks_mut(width))
        .zip(g.storage::<f32>().par_chunks(width))
        .with_min_len(CHUNK.div_ceil(width))
        .for_each(|(((theta, m), v), g)| {
            let mut along = 0.0;
            if step.unit_rows.is_some() {
                dot(g, theta, &mut along);
            }
            advance(theta, g, m, v, rates, along);
            if step.unit_rows.is_some() {
                let mut square = 0.0;
                dot(theta, theta, &mut square);
                if square > 0.0 {
                    scale(theta, 1.0 / square.sqrt());
                }
            }
        });
    (
        Tensor::from_primitive::<Flex>(theta),
        AdamMoments { first: Tensor::from_primitive::<Flex>(m), second: Tensor::from_primitive::<Flex>(v) },
    )
}

fn plain_step<const D: usize>(theta: Tensor<D>, g: Tensor<D>, moments: AdamMoments<D>, step: AdamStep) -> (Tensor<D>, AdamMoments<D>) {
    let (c1, c2) = correction(step);
    let g = match step.unit_rows {
        Some(width) => across_rows(g, theta.clone(), width),
        None => g,
    };
    let g = g * step.gradient_scale;
    let m = moments.first * step.beta1 + g.clone() * (1.0 - step.beta1);
    let v = moments.second * step.beta2 + g.clone() * g * (1.0 - step.beta2);
    let update = (m.clone() / c1) / ((v.clone() / c2).sqrt() + step.epsilon);
    let mut theta = theta - update * step.learning_rate;
    if let Some(width) = step.unit_rows {
        let dims = theta.dims();
        let rows = theta.reshape([dims.iter().product::<usize>() / width, width]);
        let norms = (rows.clone() * rows.clone()).sum_dim(1).sqrt();
        theta = (rows / norms.clamp_min(f32::MIN_POSITIVE)).reshape(dims);
    }
    (theta, AdamMoments { first: m, second: v })
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    const STEP: AdamStep =
        AdamStep { learning_rate: 0.1, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, step: 1, gradient_scale: 1.0, unit_rows: None };

    /// The first step moves by lr against the sign of the gradient: m/(1−β₁) = g, √(v/(1−β₂)) = |g|.
    #[test]
    fn first_step_by_hand() {
        let device = Device::flex();
        let theta = Tensor::<1>::from_floats([1.0, 2.0], &device);
        let moments = AdamMoments::zeros_like(&theta);
        let (theta, _) = adam_step(theta, Tensor::from_floats([0.5, -3.0], &device), moments, STEP);
        theta.into_data().assert_approx_eq::<f32>(&Tensor::<1>::from_floats([0.9, 2.1], &device).into_data(), Tolerance::absolute(1e-6));
    }

    /// A gradient along a unit row does nothing; one across it turns the row and leaves its norm at 1.
    #[test]
    fn unit_rows_by_hand() {
        let device = Device::flex();
        let theta = Tensor::<2>::from_floats([[1.0, 0.0], [0.0, 1.0]], &device);
        let gradient = Tensor::<2>::from_floats([[5.0, 0.0], [-2.0, 7.0]], &device);
        let moments = AdamMoments::zeros_like(&theta);
        let (theta, _) = adam_step(theta, gradient, moments, AdamStep { unit_rows: Some(2), ..STEP });
        let length = 1.01_f32.sqrt();
        let expected = Tensor::<2>::from_floats([[1.0, 0.0], [0.1 / length, 1.0 / length]], &device);
        theta.into_data().assert_approx_eq::<f32>(&expected.into_data(), Tolerance::absolute(1e-6));
    }

    #[test]
    fn fused_equals_plain_over_several_steps() {
        let device = Device::flex();
        let draw = || Tensor::<2>::random([37, 11], Distribution::Normal(0.0, 1.0), &device);
        for unit_rows in [None, Some(11)] {
            let start = draw();
            let start = if unit_rows.is_some() { start.clone() / (start.clone() * start).sum_dim(1).sqrt() } else { start };
            let mut fused = (start.clone(), AdamMoments::zeros_like(&start));
            let mut plain = (start.clone(), AdamMoments::zeros_like(&start));
            for step in 1..6 {
                let g = draw();
                let norm = squared_norm(&g.clone().flatten(0, 1), &plain.0.clone().flatten(0, 1), unit_rows);
                let across = unit_rows.map_or(g.clone(), |width| across_rows(g.clone(), plain.0.clone(), width));
                let expected = f64::from((across.clone() * across).sum().into_scalar::<f32>());
                assert!((norm - expected).abs() < 1e-4 * expected, "{norm} against {expected}");
                let at = AdamStep { step, gradient_scale: 0.3, unit_rows, learning_rate: 0.01, ..STEP };
                fused = adam_step(fused.0, g.clone(), fused.1, at);
                plain = plain_step(plain.0, g, plain.1, at);
            }
            fused.0.into_data().assert_approx_eq::<f32>(&plain.0.into_data(), Tolerance::absolute(1e-5));
        }
    }
}
