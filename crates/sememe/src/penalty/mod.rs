//! Penalties on a generator: what makes its Jacobian sparse (or its columns orthogonal, or its latents small).
//!
//! With `g: R^dz → R^dx`, `J = ∂g/∂z [dx, dz]` and batch means throughout, a
//! [`Penalty`] is one number at a [`Point`]: the generator and a batch of
//! latents. It takes from the point what its formula needs (columns of J,
//! projections `J v`, or outputs beside the point), and the point decides
//! how: which columns, with which pins.
//!
//! # Scale pinning
//! Scaling a latent up and the decoder down shrinks J without changing the
//! model. So directions are multiplied by std(z_j) over the batch, and every
//! penalty sees `J diag(std z)`, which that rescaling leaves as it is. On by
//! default; `pin_scale = false` gives the formula as published.
//!
//! To add a penalty: its own file, and one line in [`PenaltyKind`].

mod compositional_contrast;
mod dependency_l1;
mod dependency_l1_difference;
mod element;
mod frobenius;
mod frobenius_projected;
mod group_latent;
mod group_observed;
mod group_user;
mod hessian;
mod latent_l1;
mod log_mean;
mod orojar;
mod point;
mod surrogate_capped;
mod surrogate_log;
mod surrogate_lp;
mod surrogate_mcp;
mod surrogate_scad;
mod surrogate_tanh;

use burn::tensor::Tensor;
use thiserror::Error;

pub use dependency_l1::DependencyL1;
pub use point::{Columns, Point, std_of_latents};

/// What a penalty takes from the point, so that a config which chooses columns for one without columns is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The latents alone.
    Latents,
    /// Columns of the Jacobian, any choice of them.
    Columns,
    /// All columns at once: rows or slots are compared.
    AllColumns,
    /// Means of the columns over the whole batch, which chunks of it do not give.
    MeanOverSamples,
    /// Projections `J v` or outputs beside the point, along random directions.
    Directions,
}

/// A setting that makes no sense for the penalty or the model.
#[derive(Debug, Error, PartialEq)]
#[error("penalty `{penalty}`: `{key}` is {got}; {expected}")]
pub struct PenaltyError {
    /// The penalty's tag.
    pub penalty: &'static str,
    /// The key at fault.
    pub key: &'static str,
    /// Its value.
    pub got: String,
    /// What it may be.
    pub expected: String,
}

/// One number that training adds to the loss, times a weight.
pub trait Penalty {
    /// What the formula takes from the point.
    fn needs(&self) -> Needs;

    /// Refuses settings that make no sense for `dz` latents and `dx` observed variables.
    fn check(&self, _dz: usize, _dx: usize) -> Result<(), PenaltyError> {
        Ok(())
    }

    /// The batch mean of the formula: `[1]`, differentiable in the generator's parameters and in the latents.
    fn value(&self, at: &Point<'_>) -> Tensor<1>;

    /// The formula's term for each entry of a Jacobian whose magnitudes are given, where the formula is a sum of such terms.
    fn elements(&self, _magnitudes: Tensor<1>) -> Option<Tensor<1>> {
        None
    }
}

/// Refuses a number that is not finite and above 0.
fn positive(penalty: &'static str, key: &'static str, value: f64) -> Result<(), PenaltyError> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(PenaltyError { penalty, key, got: value.to_string(), expected: "give a finite number above 0".into() })
    }
}

/// Refuses a count below `least`.
fn at_least(penalty: &'static str, key: &'static str, count: usize, least: usize) -> Result<(), PenaltyError> {
    if count >= least {
        Ok(())
    } else {
        Err(PenaltyError { penalty, key, got: count.to_string(), expected: format!("give at least {least}") })
    }
}

/// Euclidean norm along `dim`, kept as size 1; smoothed by 1e-12 under the root, so that its slope at 0 is finite.
fn norm(values: Tensor<3>, dim: usize) -> Tensor<3> {
    ((values.clone() * values).sum_dim(dim) + 1e-12).sqrt()
}

/// Element-wise variance over the draws, divided by their number − 1.
fn unbiased_variance(draws: Vec<Tensor<2>>) -> Tensor<2> {
    let count = draws.len() as f64;
    let draws = Tensor::stack::<3>(draws, 0);
    let centred = draws.clone() - draws.mean_dim(0);
    (centred.clone() * centred).sum_dim(0).squeeze_dim::<2>(0) / (count - 1.0)
}

sememe_truth::catalogue! {
    /// Every penalty, by the tag that configs use.
    pub enum PenaltyKind: Penalty {
        "dependency-l1" => DependencyL1(dependency_l1::DependencyL1),
        "dependency-l1-difference" => DependencyL1Difference(dependency_l1_difference::DependencyL1Difference),
        "frobenius" => Frobenius(frobenius::Frobenius),
        "frobenius-projected" => FrobeniusProjected(frobenius_projected::FrobeniusProjected),
        "group-latent" => GroupLatent(group_latent::GroupLatent),
        "group-observed" => GroupObserved(group_observed::GroupObserved),
        "group-user" => GroupUser(group_user::GroupUser),
        "mcp" => Mcp(surrogate_mcp::Mcp),
        "scad" => Scad(surrogate_scad::Scad),
        "log" => Log(surrogate_log::Log),
        "log-mean" => LogMean(log_mean::LogMean),
        "tanh" => Tanh(surrogate_tanh::Tanh),
        "capped-l1" => CappedL1(surrogate_capped::CappedL1),
        "lp" => Lp(surrogate_lp::Lp),
        "hessian" => Hessian(hessian::Hessian),
        "orojar" => Orojar(orojar::Orojar),
        "compositional-contrast" => CompositionalContrast(compositional_contrast::CompositionalContrast),
        "latent-l1" => LatentL1(latent_l1::LatentL1),
    }
}

#[cfg(test)]
mod tests;
