//! The variational autoencoder with a Gaussian posterior: the estimator of the identifiability experiments.
//!
//! Encoder `x ↦ (μ, ln σ²)`, `q(z|x) = N(μ, diag σ²)`, `z = μ + σ ⊙ ε`; decoder
//! `x̂ = g(z)`. With prior `N(0, I)` and a likelihood of unit or given variance v:
//!
//! - reconstruction `1/(2v) · Σ_i (x_i − x̂_i)²` (Gaussian), or
//!   `Σ_i −x_i ln s(x̂_i) − (1−x_i) ln(1 − s(x̂_i))` (Bernoulli, x in [0, 1], s logistic),
//! - `KL = ½ Σ_j (μ_j² + σ_j² − 1 − ln σ_j²)`,
//!
//! loss `reconstruction + β · w(t) · KL`, batch means, w(t) the KL warm-up from 0 to 1.
//!
//! # Source
//! Kingma & Welling 2014, arXiv 1312.6114, eq. 10; β: Higgins et al. 2017, eq. 4.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, TensorData, activation};
use rand_distr::{Distribution, StandardNormal};
use sememe_kernels::Activation;
use sememe_truth::catalogue::Member;
use sememe_truth::random::stream;
use serde::{Deserialize, Serialize};

use super::{ModelError, linear, mlp::Mlp};
use crate::jacobian::{Dual, Generator, PerObserved, Tangents};
use crate::train::{Draft, LatentBasis, Loss, Objective, StepContext};

/// How the hidden units of the decoder are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecoderKind {
    /// One network for all observed variables.
    Shared,
    /// One small network for each observed variable: no hidden unit is shared, and the whole Jacobian has a cheap closed form.
    #[default]
    PerObserved,
}

/// What the observed variables are taken to be, given the latents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Likelihood {
    /// Real numbers with Gaussian noise of variance `observation_variance`.
    #[default]
    Gaussian,
    /// Numbers in [0, 1], the decoder's output being logits.
    Bernoulli,
}

/// Config of the VAE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VaeConfig {
    /// dz, the number of latents.
    pub dz: usize,
    /// Hidden widths of the encoder.
    pub encoder_widths: Vec<usize>,
    /// Hidden widths of the decoder (of each of its networks, when `decoder = "per-observed"`).
    pub decoder_widths: Vec<usize>,
    /// One network, or one an observed variable.
    pub decoder: DecoderKind,
    /// φ of the encoder.
    pub encoder_activation: Activation,
    /// φ of the decoder; a smooth one lets the Jacobian's sparsity reach everywhere.
    pub decoder_activation: Activation,
    /// β, the weight of the KL divergence.
    pub beta: f64,
    /// Fraction of the steps over which the KL's weight rises from 0 to β.
    pub kl_warm_up_fraction: f64,
    /// Gaussian or Bernoulli.
    pub likelihood: Likelihood,
    /// v of the Gaussian likelihood.
    pub observation_variance: f64,
}

impl Default for VaeConfig {
    fn default() -> Self {
        Self {
            dz: 5,
            encoder_widths: vec![128, 128],
            decoder_widths: vec![16, 16],
            decoder: DecoderKind::PerObserved,
            encoder_activation: Activation::Silu,
            decoder_activation: Activation::Silu,
            beta: 0.05,
            kl_warm_up_fraction: 0.0,
            likelihood: Likelihood::Gaussian,
            observation_variance: 1.0,
        }
    }
}

impl Member for VaeConfig {
    const ABOUT: &'static str = "variational autoencoder with a Gaussian posterior, MLP encoder and decoder";
    const SOURCE: &'static str = "Kingma & Welling 2014, arXiv 1312.6114; β: Higgins et al. 2017";
}

impl VaeConfig {
    /// Refuses numbers that no model can have.
    pub fn check(&self) -> Result<(), ModelError> {
        let error = |key: &'static str, got: String, expected: &'static str| Err(ModelError { key, got, expected });
        if self.dz == 0 {
            return error("dz", "0".into(), "give at least 1 latent");
        }
        for (key, widths) in [("encoder_widths", &self.encoder_widths), ("decoder_widths", &self.decoder_widths)] {
            if widths.is_empty() || widths.contains(&0) {
                return error(key, format!("{widths:?}"), "list at least one hidden width, all above 0");
            }
        }
        if !(self.beta.is_finite() && self.beta >= 0.0) {
            return error("beta", self.beta.to_string(), "give a finite number, 0 or above");
        }
        if !(0.0..=1.0).contains(&self.kl_warm_up_fraction) {
            return error("kl_warm_up_fraction", self.kl_warm_up_fraction.to_string(), "give a fraction from 0 to 1");
        }
        if !(self.observation_variance.is_finite() && self.observation_variance > 0.0) {
            return error("observation_variance", self.observation_variance.to_string(), "give a finite number above 0");
        }
        Ok(())
    }

    /// The untrained model for `dx` observed variables.
    pub fn init(&self, dx: usize, seed: u64, device: &Device) -> Result<Vae, ModelError> {
        self.check()?;
        let sizes = |from: usize, widths: &[usize], to: usize| [&[from], widths, &[to]].concat();
        let mut encoder =
            Mlp::new(&sizes(dx, &self.encoder_widths, 2 * self.dz), self.encoder_activation, device, &mut stream(seed, "init/encoder"));
        start_narrow(&mut encoder, self.dz);
        let skip = linear(dx, self.dz, 1.0, device, &mut stream(seed, "init/skip"));
        let draw = &mut stream(seed, "init/decoder");
        let decoder = match self.decoder {
            DecoderKind::Shared => {
                Decoder::Shared(Mlp::new(&sizes(self.dz, &self.decoder_widths, dx), self.decoder_activation, device, draw))
            }
            DecoderKind::PerObserved => {
                Decoder::PerObserved(PerObserved::new(self.dz, &self.decoder_widths, dx, self.decoder_activation, device, draw))
            }
        };
        Ok(Vae { encoder, skip, decoder, config: self.clone() })
    }
}

/// ln σ² at the start: narrow posteriors, so that the decoder sees the codes before their noise.
const INITIAL_LOG_VARIANCE: f64 = -2.0;

/// Makes ln σ² start near [`INITIAL_LOG_VARIANCE`], whatever x.
fn start_narrow(encoder: &mut Mlp, dz: usize) {
    let Some(last) = encoder.layers.last_mut() else { return };
    last.weight = last.weight.clone().map(|w| {
        let (mu, log_variance) = (w.clone().narrow(1, 0, dz), w.narrow(1, dz, dz));
        fresh(Tensor::cat(vec![mu, log_variance * 0.1], 1))
    });
    last.bias = last.bias.take().map(|bias| {
        bias.map(|b| {
            let (mu, log_variance) = (b.clone().narrow(0, 0, dz), b.narrow(0, dz, dz));
            fresh(Tensor::cat(vec![mu, log_variance + INITIAL_LOG_VARIANCE], 0))
        })
    });
}

/// A new leaf of the graph with these values.
fn fresh<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.device().is_autodiff() { tensor.detach().require_grad() } else { tensor }
}

/// The decoder g, `z [N, dz] → x̂ [N, dx]`.
#[derive(Module, Debug)]
pub enum Decoder {
    /// One network for all observed variables.
    Shared(Mlp),
    /// One network for each observed variable.
    PerObserved(PerObserved),
}

impl Decoder {
    fn inner(&self) -> Generator<'_> {
        match self {
            Self::Shared(mlp) => mlp,
            Self::PerObserved(networks) => networks,
        }
    }
}

impl Tangents<2> for Decoder {
    fn apply(&self, z: Tensor<2>) -> Tensor<2> {
        self.inner().apply(z)
    }

    fn push(&self, z: Dual<2>) -> Dual<2> {
        self.inner().push(z)
    }

    fn whole_jacobian(&self, z: &Tensor<2>) -> Option<Dual<2>> {
        self.inner().whole_jacobian(z)
    }
}

/// Encoder and decoder.
#[derive(Module, Debug)]
pub struct Vae {
    /// `x [N, dx] → (μ, ln σ²) [N, 2·dz]`, to which `skip` is added.
    pub encoder: Mlp,
    /// A linear path `x → μ [N, dz]`: the encoder begins as a linear code and bends from there.
    pub skip: Linear,
    /// `z [N, dz] → x̂ [N, dx]`.
    pub decoder: Decoder,
    #[module(skip)]
    config: VaeConfig,
}

/// ln σ² is kept within ±this, so that σ² can neither vanish nor overflow.
const LOG_VARIANCE_BOUND: f64 = 12.0;

impl Vae {
    /// The posterior's `(μ, ln σ²)`, each `[N, dz]`.
    pub fn posterior(&self, x: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let code = self.encoder.apply(x.clone());
        let dz = self.config.dz;
        (code.clone().narrow(1, 0, dz) + self.skip.forward(x), code.narrow(1, dz, dz).clamp(-LOG_VARIANCE_BOUND, LOG_VARIANCE_BOUND))
    }

    /// The reconstruction loss of outputs against `x`, batch mean of the sum over observed variables: `[1]`.
    fn reconstruction(&self, x: Tensor<2>, output: Tensor<2>) -> Tensor<1> {
        let samples = x.dims()[0] as f64;
        match self.config.likelihood {
            Likelihood::Gaussian => {
                let residual = output - x;
                (residual.clone() * residual).sum() / (2.0 * self.config.observation_variance * samples)
            }
            // −x ln s(o) − (1−x) ln(1−s(o)) = softplus(o) − x·o.
            Likelihood::Bernoulli => (sememe_kernels::activate(output.clone(), Activation::Softplus) - x * output).sum() / samples,
        }
    }
}

impl Objective for Vae {
    fn draft(&self, x: Tensor<2>, at: &StepContext) -> Draft {
        let (mu, log_variance) = self.posterior(x);
        let shape = mu.dims();
        let mut noise = at.stream("posterior");
        let epsilon: Vec<f32> = (0..shape[0] * shape[1]).map(|_| StandardNormal.sample(&mut noise)).collect();
        let epsilon = Tensor::<2>::from_data(TensorData::new(epsilon, shape), &mu.device());
        let latents = mu.clone() + (log_variance.clone() * 0.5).exp() * epsilon;
        let kl = (mu.clone() * mu + log_variance.clone().exp() - log_variance - 1.0).sum() * (0.5 / shape[0] as f64);
        let warm_up = if self.config.kl_warm_up_fraction > 0.0 { (at.progress() / self.config.kl_warm_up_fraction).min(1.0) } else { 1.0 };
        Draft { latents, losses: vec![Loss { name: "kl", value: kl, weight: self.config.beta * warm_up }] }
    }

    fn reconstruct(&self, x: Tensor<2>, output: Tensor<2>) -> Loss {
        Loss { name: "reconstruction", value: self.reconstruction(x, output), weight: 1.0 }
    }

    fn generator(&self) -> Generator<'_> {
        &self.decoder
    }

    fn in_basis(mut self, basis: &LatentBasis) -> Option<Self> {
        let dz = self.config.dz;
        let device = self.skip.weight.val().device();
        let (forward, backward) = (basis.forward(&device), basis.backward(&device));
        // μ′ = μ F, and ln σ² becomes the mean posterior variance in the new basis, to be learned again.
        let last = self.encoder.layers.last_mut()?;
        last.weight = last.weight.clone().map(|w| {
            let mu = w.clone().narrow(1, 0, dz).matmul(forward.clone());
            fresh(Tensor::cat(vec![mu, w.narrow(1, dz, dz) * 0.0], 1))
        });
        last.bias = last.bias.take().map(|bias| {
            bias.map(|b| {
                let mu = b.narrow(0, 0, dz).unsqueeze::<2>().matmul(forward.clone()).squeeze_dim::<1>(0);
                fresh(Tensor::cat(vec![mu, basis.log_variance(&device)], 0))
            })
        });
        self.skip.weight = self.skip.weight.clone().map(|w| fresh(w.matmul(forward.clone())));
        self.skip.bias =
            self.skip.bias.take().map(|bias| bias.map(|b| fresh(b.unsqueeze::<2>().matmul(forward.clone()).squeeze_dim::<1>(0))));
        // g′(z′) = g(z′ B): the first layer of the decoder absorbs B.
        match &mut self.decoder {
            Decoder::Shared(mlp) => {
                let first = mlp.layers.first_mut()?;
                first.weight = first.weight.clone().map(|w| fresh(backward.matmul(w)));
            }
            Decoder::PerObserved(networks) => {
                let first = networks.weights.first_mut()?;
                *first = first.clone().map(|w| {
                    let dx = w.dims()[0];
                    fresh(backward.unsqueeze::<3>().expand([dx, dz, dz]).matmul(w))
                });
            }
        }
        Some(self)
    }

    fn posterior_variance(&self, x: Tensor<2>) -> Tensor<2> {
        self.posterior(x).1.exp()
    }

    fn encode(&self, x: Tensor<2>) -> Tensor<2> {
        self.posterior(x).0
    }

    fn decode(&self, z: Tensor<2>) -> Tensor<2> {
        let output = self.decoder.apply(z);
        match self.config.likelihood {
            Likelihood::Gaussian => output,
            Likelihood::Bernoulli => activation::sigmoid(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Tolerance;

    /// μ = 1, ln σ² = 0 gives KL ½ a latent; zero residual gives reconstruction 0.
    /// A change of basis turns the codes and leaves the reconstruction as it is.
    #[test]
    fn a_change_of_basis_keeps_the_map() {
        let device = Device::flex();
        for decoder in [DecoderKind::Shared, DecoderKind::PerObserved] {
            let Ok(vae) = (VaeConfig { dz: 2, decoder, ..VaeConfig::default() }).init(3, 0, &device) else { panic!("a valid config") };
            let x = Tensor::<2>::random([6, 3], burn::tensor::Distribution::Normal(0.0, 1.0), &device);
            let basis = LatentBasis {
                forward: vec![vec![0.6, -1.6], vec![0.8, 1.2]],
                backward: vec![vec![0.6, 0.8], vec![-0.4, 0.3]],
                variance: vec![1.0, 1.0],
            };
            let (codes, output) = (vae.encode(x.clone()), vae.decode(vae.encode(x.clone())));
            let Some(turned) = vae.in_basis(&basis) else { panic!("it can") };
            let turned_codes = turned.encode(x);
            let expected = codes.matmul(basis.forward(&device));
            turned_codes.clone().into_data().assert_approx_eq::<f32>(&expected.into_data(), Tolerance::absolute(1e-5));
            turned.decode(turned_codes).into_data().assert_approx_eq::<f32>(&output.into_data(), Tolerance::absolute(1e-5));
        }
    }

    #[test]
    fn losses_by_hand() {
        let device = Device::flex();
        let Ok(mut vae) = (VaeConfig { dz: 2, ..VaeConfig::default() }).init(3, 0, &device) else { panic!("a valid config") };
        for layer in &mut vae.encoder.layers {
            layer.weight = layer.weight.clone().map(|w| w.zeros_like());
        }
        vae.skip.weight = vae.skip.weight.clone().map(|w| w.zeros_like());
        let last = vae.encoder.layers.len() - 1;
        vae.encoder.layers[last].bias = Some(burn::module::Param::from_tensor(Tensor::from_floats([1.0, 1.0, 0.0, 0.0], &device)));
        let x = Tensor::<2>::ones([5, 3], &device);
        let draft = vae.draft(x.clone(), &StepContext::new(0, 0, 1));
        let expected = Tensor::<1>::from_floats([1.0], &device).into_data();
        draft.losses[0].value.clone().into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-6));
        let half = vae.reconstruct(x.clone(), x.clone() + 1.0).value.into_scalar::<f32>();
        assert_eq!((vae.reconstruct(x.clone(), x).value.into_scalar::<f32>(), half), (0.0, 1.5));
    }
}
