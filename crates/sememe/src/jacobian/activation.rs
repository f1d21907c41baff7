//! An element-wise activation: `y = φ(u)`, `ẏ = φ′(u) ⊙ u̇`.

use burn::module::Module;
use burn::tensor::Tensor;
use sememe_kernels::{Activation, activate, scale_tangents};

use super::{Dual, Tangents};

/// φ as a layer of any rank.
#[derive(Module, Debug)]
pub struct Activate {
    /// Which φ.
    #[module(skip)]
    pub phi: Activation,
}

impl Activate {
    /// The layer of φ.
    pub fn new(phi: Activation) -> Self {
        Self { phi }
    }
}

impl<const D: usize> Tangents<D> for Activate {
    fn apply(&self, u: Tensor<D>) -> Tensor<D> {
        activate(u, self.phi)
    }

    fn push(&self, u: Dual<D>) -> Dual<D> {
        Dual { tangents: scale_tangents(u.tangents, u.value.clone(), self.phi), value: activate(u.value, self.phi) }
    }
}
