//! Exact Jacobians of a generator by forward mode: every layer pushes tangents forward beside its values.
//!
//! For a map g and a direction v, forward mode carries the pair
//! `(x, ẋ) = (g(z), J(z) v)` through the layers of g. With the k unit
//! directions of k latents, the k tangents are k *columns* of the Jacobian
//! `J[i,j] = ∂g_i/∂z_j`. All is written in ordinary (or fused) tensor
//! operations, so reverse mode differentiates the result: a penalty on J has
//! exact gradients and no differentiation is nested.
//!
//! The k tangents lie below one another in the batch dimension: `value [N, …]`
//! and `tangents [k·N, …]`, block c holding direction c for all N samples. So a
//! linear layer treats the tangents as a larger batch, whatever its rank.
//!
//! # Source
//! Griewank & Walther 2008, *Evaluating Derivatives*, §3.1 (forward), §5 (reverse over forward).

mod activation;
mod choice;
mod compose;
mod conv;
mod difference;
mod linear;
mod norm;
mod per_observed;

use burn::tensor::Tensor;

pub use activation::Activate;
pub use choice::{ColumnChoice, ColumnChoiceError, Directions};
pub use compose::{Chain, Flatten, Residual, Sequential, Unflatten};

pub use difference::{central_column, forward_column};
pub use norm::LayerNorm;
pub use per_observed::PerObserved;

/// A value and its tangents on their way through the layers.
#[derive(Clone, Debug)]
pub struct Dual<const D: usize> {
    /// `x [N, …]`.
    pub value: Tensor<D>,
    /// `ẋ [k·N, …]`, k blocks of the shape of `value`.
    pub tangents: Tensor<D>,
}

impl<const D: usize> Dual<D> {
    /// k, the number of tangents of each sample.
    pub fn directions(&self) -> usize {
        self.tangents.dims()[0] / self.value.dims()[0].max(1)
    }
}

/// A map that can push tangents forward: `I` and `O` are the ranks of input and output, batch dimension included.
pub trait Tangents<const I: usize, const O: usize = I> {
    /// `g(x)`: `[N, …] → [N, …]`.
    fn apply(&self, x: Tensor<I>) -> Tensor<O>;

    /// `(g(x), J(x) ẋ)`.
    fn push(&self, x: Dual<I>) -> Dual<O>;

    /// `(g(x), J(x))` in a closed form that is cheaper than pushing all
    /// directions, where the map has one: value `[N, dx]`, Jacobian
    /// `[dz·N, dx]` in the layout of [`Dual::tangents`].
    fn whole_jacobian(&self, _x: &Tensor<I>) -> Option<Dual<O>> {
        None
    }
}

/// A generator as penalties see it: latents `[N, dz]` to observed `[N, dx]`, images flattened.
pub type Generator<'a> = &'a dyn Tangents<2, 2>;

/// `(g(z), J v)` for one direction a sample: `latents [N, dz]`, `v [N, dz]`.
pub fn project(generator: Generator<'_>, latents: Tensor<2>, v: Tensor<2>) -> Dual<2> {
    generator.push(Dual { value: latents, tangents: v })
}

/// `(g(z), the chosen columns of J)`; see [`Directions`] for which.
pub fn columns(generator: Generator<'_>, latents: Tensor<2>, directions: &Directions) -> Dual<2> {
    if directions.is_every_latent()
        && let Some(whole) = generator.whole_jacobian(&latents)
    {
        let scale = directions.scale_of_columns(&whole);
        return Dual { value: whole.value, tangents: whole.tangents * scale };
    }
    generator.push(Dual { value: latents, tangents: directions.tangents() })
}

#[cfg(test)]
mod tests;
