//! One Adam step over a parameter, its gradient and its two moments in a single pass over memory.
//!
//! With gradient g, step t and rates β₁, β₂:
//! `m ← β₁ m + (1−β₁) g`, `v ← β₂ v + (1−β₂) g²`,
//! `θ ← θ − lr · (m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + ε)`.
//!
//! # Source
//! Kingma & Ba 2015, arXiv 1412.6980, algorithm 1.

use burn::tensor::Tensor;
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

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
pub fn adam_step<const D: usize>(
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    moments: AdamMoments<D>,
    step: AdamStep,
) -> (Tensor<D>, AdamMoments<D>) {
    if crate::dispatch::is_fused(&parameter) && !parameter.device().is_autodiff() {
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

fn correction(step: AdamStep) -> (f64, f64) {
    let t = i32::try_from(step.step).unwrap_or(i32::MAX);
    (1.0 - step.beta1.powi(t), 1.0 - step.beta2.powi(t))
}

fn fused_step<const D: usize>(
    mut theta: FlexTensor,
    g: FlexTensor,
    mut m: FlexTensor,
    mut v: FlexTensor,
    step: AdamStep,
) -> (Tensor<D>, AdamMoments<D>) {
    let dense = |t: FlexTensor| if t.is_contiguous() && t.layout().start_offset() == 0 { t } else { t.to_contiguous() };
    let g = dense(g);
    (theta, m, v) = (dense(theta), dense(m), dense(v));
    let (c1, c2) = correction(step);
    let (beta1, beta2) = (step.beta1 as f32, step.beta2 as f32);
    let (rate, inv_c2, epsilon) = ((step.learning_rate / c1) as f32, (1.0 / c2) as f32, step.epsilon as f32);
    const CHUNK: usize = 1 << 14;
    theta
        .storage_mut::<f32>()
        .par_chunks_mut(CHUNK)
        .zip(m.storage_mut::<f32>().par_chunks_mut(CHUNK))
        .zip(v.storage_mut::<f32>().par_chunks_mut(CHUNK))
        .zip(g.storage::<f32>().par_chunks(CHUNK))
        .for_each(|(((theta, m), v), g)| {
            for (((theta, m), v), &g) in theta.iter_mut().zip(m).zip(v).zip(g) {
                *m = beta1 * *m + (1.0 - beta1) * g;
                *v = beta2 * *v + (1.0 - beta2) * g * g;
                *theta -= rate * *m / ((*v * inv_c2).sqrt() + epsilon);
            }
        });
    (
        Tensor::from_primitive::<Flex>(theta),
        AdamMoments { first: Tensor::from_primitive::<Flex>(m), second: Tensor::from_primitive::<Flex>(v) },
    )
}

fn plain_step<const D: usize>(theta: Tensor<D>, g: Tensor<D>, moments: AdamMoments<D>, step: AdamStep) -> (Tensor<D>, AdamMoments<D>) {
    let (c1, c2) = correction(step);
    let m = moments.first * step.beta1 + g.clone() * (1.0 - step.beta1);
    let v = moments.second * step.beta2 + g.clone() * g * (1.0 - step.beta2);
    let update = (m.clone() / c1) / ((v.clone() / c2).sqrt() + step.epsilon);
    (theta - update * step.learning_rate, AdamMoments { first: m, second: v })
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    const STEP: AdamStep = AdamStep { learning_rate: 0.1, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, step: 1 };

    /// The first step moves by lr against the sign of the gradient: m/(1−β₁) = g, √(v/(1−β₂)) = |g|.
    #[test]
    fn first_step_by_hand() {
        let device = Device::flex();
        let theta = Tensor::<1>::from_floats([1.0, 2.0], &device);
        let moments = AdamMoments::zeros_like(&theta);
        let (theta, _) = adam_step(theta, Tensor::from_floats([0.5, -3.0], &device), moments, STEP);
        theta.into_data().assert_approx_eq::<f32>(&Tensor::<1>::from_floats([0.9, 2.1], &device).into_data(), Tolerance::absolute(1e-6));
    }

    #[test]
    fn fused_equals_plain_over_several_steps() {
        let device = Device::flex();
        let draw = || Tensor::<2>::random([37, 11], Distribution::Normal(0.0, 1.0), &device);
        let mut fused = (draw(), AdamMoments::zeros_like(&draw()));
        let mut plain = fused.clone();
        for step in 1..6 {
            let (g, at) = (draw(), AdamStep { step, ..STEP });
            fused = adam_step(fused.0, g.clone(), fused.1, at);
            plain = plain_step(plain.0, g, plain.1, at);
        }
        fused.0.into_data().assert_approx_eq::<f32>(&plain.0.into_data(), Tolerance::absolute(1e-5));
    }
}
