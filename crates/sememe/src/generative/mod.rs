//! Generative models: an encoder of data to latents and a generator of data from latents.
//!
//! To add a model: its own file with a config, a [`Module`](burn::module::Module)
//! that implements [`Objective`](crate::train::Objective), and one line in [`ModelKind`].

mod mlp;
mod vae;

use burn::tensor::Device;
use thiserror::Error;

pub use mlp::{Mlp, linear};
pub use vae::{Decoder, DecoderKind, Likelihood, Vae, VaeConfig};

/// A setting that no model can have.
#[derive(Debug, Error, PartialEq)]
#[error("model: `{key}` is {got}; {expected}")]
pub struct ModelError {
    /// The key at fault.
    pub key: &'static str,
    /// Its value.
    pub got: String,
    /// What it may be.
    pub expected: &'static str,
}

/// What every model config offers before its type is known.
pub trait ModelConfig {
    /// Refuses numbers that no model can have.
    fn check(&self) -> Result<(), ModelError>;
    /// dz.
    fn latent_count(&self) -> usize;
}

impl ModelConfig for VaeConfig {
    fn check(&self) -> Result<(), ModelError> {
        VaeConfig::check(self)
    }

    fn latent_count(&self) -> usize {
        self.dz
    }
}

sememe_truth::catalogue! {
    /// Every model, by the tag that configs use.
    pub enum ModelKind: ModelConfig {
        "vae" => Vae(vae::VaeConfig),
    }
}

/// Does something with a model of whatever type the config names.
pub trait WithModel {
    /// What comes of it.
    type Output;
    /// Called once with the untrained model.
    fn call<M: crate::train::Objective>(self, model: M) -> Self::Output;
}

impl ModelKind {
    /// The untrained model for `dx` observed variables, handed to `then`.
    pub fn init<W: WithModel>(&self, dx: usize, seed: u64, device: &Device, then: W) -> Result<W::Output, ModelError> {
        match self {
            Self::Vae(config) => Ok(then.call(config.init(dx, seed, device)?)),
        }
    }
}
