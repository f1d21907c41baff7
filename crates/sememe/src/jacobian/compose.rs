//! Composition: one after another ([`Chain`], [`Sequential`]), beside the identity ([`Residual`]), and changes of shape.
//!
//! Chain rule: `(g∘f)˙ = J_g (J_f ẋ)`; residual: `(x + f(x))˙ = ẋ + J_f ẋ`.

use burn::module::Module;
use burn::tensor::Tensor;

use super::{Dual, Tangents};

/// `second ∘ first`, where the rank may change from `I` over `M` to `O`.
#[derive(Module, Debug)]
pub struct Chain<A: Module, B: Module, const M: usize> {
    /// Applied first.
    pub first: A,
    /// Applied to its output.
    pub second: B,
}

impl<A: Module, B: Module, const M: usize> Chain<A, B, M> {
    /// `second ∘ first`.
    pub fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A, B, const I: usize, const M: usize, const O: usize> Tangents<I, O> for Chain<A, B, M>
where
    A: Tangents<I, M> + Module,
    B: Tangents<M, O> + Module,
{
    fn apply(&self, x: Tensor<I>) -> Tensor<O> {
        self.second.apply(self.first.apply(x))
    }

    fn push(&self, x: Dual<I>) -> Dual<O> {
        self.second.push(self.first.push(x))
    }
}

/// Layers of one type and rank, one after another.
#[derive(Module, Debug)]
pub struct Sequential<L: Module> {
    /// In the order of application.
    pub layers: Vec<L>,
}

impl<L: Tangents<D> + Module, const D: usize> Tangents<D> for Sequential<L> {
    fn apply(&self, x: Tensor<D>) -> Tensor<D> {
        self.layers.iter().fold(x, |x, layer| layer.apply(x))
    }

    fn push(&self, x: Dual<D>) -> Dual<D> {
        self.layers.iter().fold(x, |x, layer| layer.push(x))
    }
}

/// `x + f(x)`.
#[derive(Module, Debug)]
pub struct Residual<L: Module> {
    /// f, which keeps the shape.
    pub inner: L,
}

impl<L: Tangents<D> + Module, const D: usize> Tangents<D> for Residual<L> {
    fn apply(&self, x: Tensor<D>) -> Tensor<D> {
        x.clone() + self.inner.apply(x)
    }

    fn push(&self, x: Dual<D>) -> Dual<D> {
        let inner = self.inner.push(x.clone());
        Dual { value: x.value + inner.value, tangents: x.tangents + inner.tangents }
    }
}

/// `[N, C·H·W] → [N, C, H, W]`.
#[derive(Module, Debug)]
pub struct Unflatten {
    /// `[C, H, W]`.
    #[module(skip)]
    pub shape: [usize; 3],
}

impl Tangents<2, 4> for Unflatten {
    fn apply(&self, x: Tensor<2>) -> Tensor<4> {
        let [c, h, w] = self.shape;
        x.reshape([-1, c as i32, h as i32, w as i32])
    }

    fn push(&self, x: Dual<2>) -> Dual<4> {
        Dual { value: self.apply(x.value), tangents: self.apply(x.tangents) }
    }
}

/// `[N, C, H, W] → [N, C·H·W]`.
#[derive(Module, Debug)]
pub struct Flatten {}

impl Tangents<4, 2> for Flatten {
    fn apply(&self, x: Tensor<4>) -> Tensor<2> {
        x.flatten(1, 3)
    }

    fn push(&self, x: Dual<4>) -> Dual<2> {
        Dual { value: self.apply(x.value), tangents: self.apply(x.tangents) }
    }
}
