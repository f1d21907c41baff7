//! JumpReLU: each latent has a threshold of its own, learned through a straight-through estimate.
//!
//! `z = u · 1[u > θ]` with `θ ≥ 0`; loss `mean_N Σ_d (x − x̂)² + λ w(t) · penalty`, the penalty being
//!
//! - `l0`: `mean_N L0`, `L0 = Σ_i 1[u_i > θ_i]`,
//! - `l0-target`: `(mean_N L0 / T − 1)²`,
//! - `tanh`: `mean_N Σ_i tanh(c · z_i ‖W_dec,i‖)`, which has a gradient in u too.
//!
//! With the rectangle `K(s) = 1[|s| < ½]` of width ε in place of a step's derivative,
//! `∂z/∂θ = −(θ/ε) K((u−θ)/ε)`, `∂L0/∂θ = −(1/ε) K((u−θ)/ε)`, `∂z/∂u = 1[u > θ]`, `∂L0/∂u = 0`.
//! θ is applied once, and stays in single precision.
//!
//! # Source
//! Rajamanoharan et al. 2024, arXiv 2407.14435, eqs. 9–12; tanh: Conerly et al. 2025, *Dictionary learning optimization techniques*.

use burn::tensor::Tensor;
use sememe_kernels::Choice;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::relu::warm_up;
use super::topk::reconstruction;
use super::{
    Batch, Codes, DEAD_AFTER_TOKENS, Dictionary, DictionaryConfig, DictionaryError, Draft, Form, Widths, check_common, check_fraction,
    check_number,
};
use crate::train::{Loss, StepContext};

/// The form of the penalty on the number of active latents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum L0Penalty {
    /// `L0`.
    #[default]
    L0,
    /// `(L0/T − 1)²`.
    L0Target,
    /// `Σ tanh(c z ‖W_dec‖)`.
    Tanh,
}

/// Config of JumpReLU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JumpRelu {
    /// n, the number of latents.
    pub n: usize,
    /// Which penalty.
    pub penalty: L0Penalty,
    /// λ.
    pub weight: f64,
    /// T of `penalty = "l0-target"`.
    pub target_l0: f64,
    /// c of `penalty = "tanh"`.
    pub tanh_scale: f64,
    /// ε, in units of the pre-activations.
    pub epsilon: f64,
    /// θ at the start.
    pub initial_threshold: f64,
    /// Fraction of the steps over which λ rises from 0.
    pub warm_up_fraction: f64,
    /// T of the dead: tokens after which a silent latent is dead.
    pub dead_after_tokens: usize,
}

impl Default for JumpRelu {
    fn default() -> Self {
        Self {
            n: 16_384,
            penalty: L0Penalty::L0,
            weight: 1.0,
            target_l0: 32.0,
            tanh_scale: 4.0,
            epsilon: 0.05,
            initial_threshold: 0.01,
            warm_up_fraction: 0.05,
            dead_after_tokens: DEAD_AFTER_TOKENS,
        }
    }
}

impl Member for JumpRelu {
    const ABOUT: &'static str = "a learned threshold a latent, with a penalty on the number of active latents";
    const SOURCE: &'static str = "Rajamanoharan et al. 2024, arXiv 2407.14435";
}

/// z and the step function, of the shape of u each, with the straight-through gradients in `theta`, which is not below 0.
fn jump(u: Tensor<2>, theta: Tensor<2>, epsilon: f64) -> (Tensor<2>, Tensor<2>) {
    let fixed = theta.clone().detach();
    let distance = u.clone().detach() - fixed.clone();
    let active = distance.clone().greater_elem(0.0).float();
    let window = distance.abs().lower_elem(0.5 * epsilon).float() / -epsilon;
    // 0 in value; its gradient in θ is the window's.
    let slope = window * (theta - fixed.clone());
    (u * active.clone() + slope.clone() * fixed, active + slope)
}

impl JumpRelu {
    fn threshold(&self, dictionary: &Dictionary) -> Tensor<1> {
        match &dictionary.threshold {
            Some(threshold) => threshold.val(),
            None => Tensor::zeros([dictionary.n()], &dictionary.b_enc.val().device()),
        }
    }
}

impl DictionaryConfig for JumpRelu {
    fn n(&self) -> usize {
        self.n
    }

    fn check(&self, widths: Widths) -> Result<(), DictionaryError> {
        check_common("jumprelu", self.n, self.dead_after_tokens, widths)?;
        check_number("jumprelu", "weight", self.weight, true)?;
        check_number("jumprelu", "target_l0", self.target_l0, false)?;
        check_number("jumprelu", "tanh_scale", self.tanh_scale, false)?;
        check_number("jumprelu", "epsilon", self.epsilon, false)?;
        check_number("jumprelu", "initial_threshold", self.initial_threshold, true)?;
        check_fraction("jumprelu", "warm_up_fraction", self.warm_up_fraction)
    }

    fn form(&self) -> Form {
        Form { threshold: Some(self.initial_threshold), ..Form::default() }
    }

    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes {
        dictionary.choose(x, &Choice::Above(self.threshold(dictionary).detach()))
    }

    fn draft(&self, dictionary: &Dictionary, batch: &Batch, at: &StepContext) -> Draft {
        let threshold = self.threshold(dictionary).clamp_min(0.0);
        let places = dictionary.places_above(&batch.input, threshold.clone() - 0.5 * self.epsilon);
        let u = dictionary.pre_activations_at(batch.input.clone(), &places);
        let (z, active) = jump(u, places.spread(threshold), self.epsilon);
        let rows = batch.input.dims()[0] as f64;
        let codes = places.codes(z.clone());
        let output = dictionary.decode(&codes, &batch.input);
        let (name, value) = match self.penalty {
            L0Penalty::L0 => ("l0_penalty", active.sum() / rows),
            L0Penalty::L0Target => {
                let excess = active.sum() / rows / self.target_l0 - 1.0;
                ("l0_target_penalty", excess.clone() * excess)
            }
            L0Penalty::Tanh => ("tanh_penalty", (z * places.spread(dictionary.decoder_norms()) * self.tanh_scale).tanh().sum() / rows),
        };
        let penalty = Loss { name, value, weight: self.weight * warm_up(at, self.warm_up_fraction) };
        Draft { losses: vec![reconstruction(&batch.target, &output), penalty], output, codes, smallest: None, penalty_scale: None }
    }

    fn dead_after_tokens(&self) -> usize {
        self.dead_after_tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    /// θ = ½, ε = ½: u = 0.4 and 0.7 lie in the window, 0.1 and 2 do not.
    #[test]
    fn straight_through_gradients_by_hand() {
        let device = Device::flex().autodiff();
        let u = Tensor::<2>::from_floats([[0.1, 0.4, 0.7, 2.0]], &device).require_grad();
        let theta = Tensor::<1>::from_floats([0.5; 4], &device).require_grad();
        let check = |pick: fn((Tensor<2>, Tensor<2>)) -> Tensor<2>, value: [f32; 4], in_theta: [f32; 4], in_u: [f32; 4]| {
            let out = pick(jump(u.clone(), theta.clone().unsqueeze_dim(0), 0.5));
            assert_eq!(out.to_data().iter::<f32>().collect::<Vec<_>>(), value);
            let gradients = (out + u.clone() * 0.0).sum().backward();
            let read = |data: Option<burn::tensor::TensorData>| data.expect("a gradient").iter::<f32>().collect::<Vec<_>>();
            assert_eq!(read(theta.grad(&gradients).map(Tensor::into_data)), in_theta);
            assert_eq!(read(u.grad(&gradients).map(Tensor::into_data)), in_u);
        };
        check(|(z, _)| z, [0.0, 0.0, 0.7, 2.0], [0.0, -1.0, -1.0, 0.0], [0.0, 0.0, 1.0, 1.0]);
        check(|(_, l0)| l0, [0.0, 0.0, 1.0, 1.0], [0.0, -2.0, -2.0, 0.0], [0.0; 4]);
    }
}
