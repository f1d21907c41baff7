//! A dictionary with a nonlinear decoder, on whose Jacobian sparsity is asked for, beside or instead of sparsity of the code.
//!
//! `z = ReLU(u)`, or the k largest of u; `x̂ = z W_dec + φ(z W_in + b_in) W_out + b_dec`; loss
//!
//! `mean_N Σ_d (x − x̂)² + latent_weight · mean_N Σ_i z_i + jacobian.weight · R(J)`
//!
//! with, at a token, over the dimensions i of the activation and the active latents a,
//!
//! `J[i, a] = ∂x̂_i/∂z_a = W_dec[a, i] + Σ_m W_in[a, m] φ′(·)_m W_out[m, i]`.
//!
//! `k = 0` and `latent_weight = 0` leave sparse dependencies alone: the claim of diverse dictionary learning, on a language
//! model's activations. `jacobian.weight = 0` is a sparse code with the same decoder. AuxK as in TopK, where there is a k.
//!
//! Rows of W_dec are free: a latent's scale is pinned by the penalty on J and by the code's, where there is one; with neither
//! the two trade off against each other.
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, §3 (dependency sparsity); the blocks as in Farnik et al. 2025, arXiv 2502.18147, §3.3.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use sememe_kernels::{Activation, Choice, Pattern, block_starts, jacobian_blocks, scale_tangents};
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::relu::rectified;
use super::topk::reconstruction;
use super::{
    AuxK, Batch, Codes, DEAD_AFTER_TOKENS, Dictionary, DictionaryConfig, DictionaryError, Draft, Form, HiddenDecoder, Widths, check_common,
    check_k, check_number,
};
use crate::block::{Blocks, JacobianTerm};
use crate::train::{Loss, StepContext};

/// Config of a dictionary with a nonlinear decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nonlinear {
    /// n, the number of latents.
    pub n: usize,
    /// Active latents a token; 0 for all that are positive.
    pub k: usize,
    /// h, units of the decoder's hidden layer.
    pub hidden: usize,
    /// φ.
    pub activation: Activation,
    /// Weight of Σ z.
    pub latent_weight: f64,
    /// The penalty on J.
    pub jacobian: JacobianTerm,
    /// What revives dead latents, where there is a k.
    pub auxk: AuxK,
    /// T: tokens after which a silent latent is dead.
    pub dead_after_tokens: usize,
}

impl Default for Nonlinear {
    fn default() -> Self {
        Self {
            n: 1024,
            k: 0,
            hidden: 512,
            activation: Activation::Silu,
            latent_weight: 0.0,
            jacobian: JacobianTerm { weight: 0.1, tokens: 64, ..JacobianTerm::default() },
            auxk: AuxK::default(),
            dead_after_tokens: DEAD_AFTER_TOKENS,
        }
    }
}

impl Member for Nonlinear {
    const ABOUT: &'static str = "a nonlinear decoder with a sparse Jacobian, beside or instead of a sparse code";
    const SOURCE: &'static str = "Zheng et al. 2026, arXiv 2604.17568, §3";
}

impl DictionaryConfig for Nonlinear {
    fn n(&self) -> usize {
        self.n
    }

    fn check(&self, widths: Widths) -> Result<(), DictionaryError> {
        let error = |key, got: String, expected: String| Err(DictionaryError { dictionary: "nonlinear", key, got, expected });
        check_common("nonlinear", self.n, self.dead_after_tokens, widths)?;
        if self.k > 0 {
            check_k("nonlinear", self.k, self.n)?;
        }
        if self.hidden == 0 {
            return error("hidden", "0".into(), "give at least 1 unit".into());
        }
        check_number("nonlinear", "latent_weight", self.latent_weight, true)?;
        if self.jacobian.guard.is_some() {
            return error("jacobian.guard", "set".into(), "leave it out; the guard goes with a pair".into());
        }
        if let Err(problem) = self.jacobian.check() {
            return error("jacobian", "refused".into(), problem.to_string());
        }
        self.auxk.check("nonlinear")
    }

    fn form(&self) -> Form {
        Form { unit_rows: false, hidden: Some((self.hidden, self.activation)), ..Form::default() }
    }

    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes {
        match self.k {
            0 => {
                let (places, z) = rectified(dictionary, x);
                places.codes(z)
            }
            k => dictionary.choose(x, &Choice::PerRow(k)),
        }
    }

    fn draft(&self, dictionary: &Dictionary, batch: &Batch, at: &StepContext) -> Draft {
        let codes = self.codes(dictionary, batch.input.clone());
        let output = dictionary.decode(&codes, &batch.input);
        let mut losses = vec![reconstruction(&batch.target, &output)];
        if self.latent_weight > 0.0 {
            let rows = batch.input.dims()[0] as f64;
            let value = match &codes {
                Codes::Sparse { values, .. } => values.clone().sum() / rows,
                Codes::Dense(z) => z.clone().sum() / rows,
            };
            losses.push(Loss { name: "l1", value, weight: self.latent_weight });
        }
        let weight = self.jacobian.weight_at(at);
        if weight > 0.0
            && let Some(hidden) = &dictionary.hidden
        {
            let (active, _) = codes.active();
            let all = all_dimensions(active.rows(), dictionary.widths().output);
            let sample = self.jacobian.sample(&active, &all, &mut at.stream("jacobian"));
            let pre = hidden.pre(&codes).narrow(0, 0, sample.tokens);
            let found = blocks(dictionary, hidden, pre, &sample.x, &sample.y);
            let value = self.jacobian.value(&found, sample.tokens) * sample.factor;
            losses.push(Loss { name: "jacobian", value, weight });
        }
        if self.k > 0 {
            losses.extend(self.auxk.loss(dictionary, batch, &output, self.dead_after_tokens));
        }
        Draft { losses, output, codes, smallest: None, penalty_scale: None }
    }

    fn dead_after_tokens(&self) -> usize {
        self.dead_after_tokens
    }
}

/// Every dimension at every token.
fn all_dimensions(rows: usize, d: usize) -> Arc<Pattern> {
    let starts = (0..=rows).map(|row| (row * d) as u32).collect();
    Arc::new(Pattern::new(starts, (0..rows).flat_map(|_| 0..d as u32).collect(), d))
}

/// J of tokens with pre-activations `pre [N, h]` between the latents in `x` and the dimensions in `y`.
///
/// The linear part takes its place as d more units of slope 1, which latents reach by W_dec and dimensions read one each.
fn blocks(dictionary: &Dictionary, hidden: &HiddenDecoder, pre: Tensor<2>, x: &Arc<Pattern>, y: &Arc<Pattern>) -> Blocks {
    let ([rows, _], d, device) = (pre.dims(), y.n(), pre.device());
    let slopes = scale_tangents(pre.ones_like(), pre, hidden.phi);
    let mut unit = vec![0.0_f32; d * d];
    unit.iter_mut().step_by(d + 1).for_each(|entry| *entry = 1.0);
    let unit = Tensor::<2>::from_data(TensorData::new(unit, [d, d]), &device);
    let into = Tensor::cat(vec![hidden.w_in.val(), dictionary.w_dec.val()], 1);
    let out = Tensor::cat(vec![hidden.w_out.val().transpose(), unit], 1);
    let slopes = Tensor::cat(vec![slopes, Tensor::ones([rows, d], &device)], 1);
    Blocks { entries: jacobian_blocks(into, out, slopes, x, y), starts: block_starts(x, y), x: x.clone(), y: y.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::{DictionaryKind, DictionaryPlan, Repeat, start, train};
    use burn::tensor::{Device, Distribution};

    fn dictionary(config: &Nonlinear, d: usize, device: &Device) -> Dictionary {
        Dictionary::new(DictionaryKind::Nonlinear(config.clone()), Widths::same(d), 4, device).expect("a dictionary")
    }

    /// `∂x̂/∂z` by central differences.
    #[test]
    fn blocks_equal_finite_differences() {
        let device = Device::flex();
        let config = Nonlinear { n: 7, hidden: 5, ..Nonlinear::default() };
        let mut dictionary = dictionary(&config, 4, &device);
        if let Some(hidden) = &mut dictionary.hidden {
            hidden.w_in = hidden.w_in.clone().map(|w| w * 8.0);
            hidden.w_out = hidden.w_out.clone().map(|w| w * 8.0);
        }
        let x = Tensor::<2>::random([3, 4], Distribution::Normal(0.0, 2.0), &device);
        let codes = config.codes(&dictionary, x.clone());
        let (active, _) = codes.active();
        let hidden = dictionary.hidden.as_ref().expect("a hidden layer");
        let found = blocks(&dictionary, hidden, hidden.pre(&codes), &active, &all_dimensions(3, 4));
        let entries: Vec<f32> = found.entries.to_data().iter::<f32>().collect();
        let (z, step) = (codes.dense(), 1e-2);
        for token in 0..3 {
            for (column, &a) in active.row(token).iter().enumerate() {
                let mut unit = vec![0.0_f32; 21];
                unit[token * 7 + a as usize] = step;
                let unit = Tensor::<2>::from_data(TensorData::new(unit, [3, 7]), &device);
                let at = |z: Tensor<2>| dictionary.decode(&Codes::Dense(z), &x);
                let change = (at(z.clone() + unit.clone()) - at(z.clone() - unit)) / (2.0 * f64::from(step));
                let expected: Vec<f32> = change.narrow(0, token, 1).into_data().iter::<f32>().collect();
                for (row, expected) in expected.into_iter().enumerate() {
                    let entry = entries[found.starts[token] + row * active.row(token).len() + column];
                    assert!((entry - expected).abs() < 2e-3, "{entry} {expected}");
                }
            }
        }
    }

    /// With the penalty fewer dimensions depend on a latent, without any sparsity of the code; folding keeps the map.
    #[test]
    fn dependencies_become_sparse() {
        let device = Device::flex().autodiff();
        let data = Tensor::<2>::random([1024, 6], Distribution::Normal(0.0, 1.0), &device.clone().inner());
        let plan =
            DictionaryPlan { steps: 150, batch_tokens: 128, learning_rate: Some(5e-3), warm_up_steps: 5, ..DictionaryPlan::default() };
        let run = |weight: f64| {
            let config =
                Nonlinear { n: 12, hidden: 16, jacobian: JacobianTerm { weight, ..JacobianTerm::default() }, ..Nonlinear::default() };
            let mut batches = Repeat { data: data.clone(), batch: 128 };
            struct Nobody;
            impl crate::train::Observer<Dictionary> for Nobody {
                fn observe(&mut self, _: &crate::train::Event<'_>, _: &crate::train::Fit<Dictionary>) -> crate::train::Flow {
                    crate::train::Flow::Continue
                }
            }
            let fit = train(start(dictionary(&config, 6, &device), &plan, 0), &mut batches, &plan, &mut Nobody).expect("trained");
            let trained = fit.model.evaluated();
            let codes = trained.codes(data.clone());
            let hidden = trained.hidden.as_ref().expect("a hidden layer");
            let found = blocks(&trained, hidden, hidden.pre(&codes), &codes.active().0, &all_dimensions(1024, 6));
            let folded = trained.clone().fold_scale(2.0, 2.0);
            let same = (folded.reconstruct(data.clone() / 2.0) - trained.reconstruct(data.clone()) / 2.0).abs().max();
            assert!(same.into_scalar::<f32>() < 1e-4);
            f64::from(found.entries.abs().sum().into_scalar::<f32>()) / 1024.0
        };
        let (without, with) = (run(0.0), run(0.2));
        assert!(with < 0.9 * without, "{with} {without}");
    }
}
