//! What the loop asks of a model: named losses of a batch, and the generator that penalties act on.

use burn::module::Module;
use burn::tensor::Tensor;
use sememe_truth::random::{Stream, stream};

use super::LatentBasis;
use crate::jacobian::Generator;

/// Where in training a batch stands; the source of its random streams.
#[derive(Clone, Copy, Debug)]
pub struct StepContext {
    seed: u64,
    /// From 0.
    pub step: usize,
    /// How many there will be.
    pub steps: usize,
    /// Which of the step's accumulated batches this is, from 0.
    pub part: usize,
}

impl StepContext {
    /// Step `step` of `steps` of the run with this seed.
    pub fn new(seed: u64, step: usize, steps: usize) -> Self {
        Self { seed, step, steps, part: 0 }
    }

    /// The same step at its accumulated batch `part`.
    pub fn at_part(self, part: usize) -> Self {
        Self { part, ..self }
    }

    /// From 0 to 1.
    pub fn progress(&self) -> f64 {
        self.step as f64 / self.steps.max(1) as f64
    }

    /// The stream `name` of this step: it depends on the step's number and not on what was drawn before,
    /// so a resumed run draws what an uninterrupted one would.
    pub fn stream(&self, name: &str) -> Stream {
        stream(self.seed, &format!("{name}/{}/{}", self.step, self.part))
    }
}

/// One named part of the loss.
pub struct Loss {
    /// As it appears in metrics and plots.
    pub name: &'static str,
    /// `[1]`, unweighted.
    pub value: Tensor<1>,
    /// Its factor in the total.
    pub weight: f64,
}

/// What a model makes of a batch before the generator has run.
pub struct Draft {
    /// `z [N, dz]`, where the penalties are evaluated and from which the batch is reconstructed.
    pub latents: Tensor<2>,
    /// Losses that need no output of the generator (KL).
    pub losses: Vec<Loss>,
}

/// A model that can be trained: latents of a batch, a generator, and a reconstruction loss.
pub trait Objective: Module {
    /// Latents of the batch `x [N, dx]`, and the losses on them.
    fn draft(&self, x: Tensor<2>, at: &StepContext) -> Draft;

    /// The loss of the generator's `output [N, dx]` against `x [N, dx]`, named "reconstruction".
    fn reconstruct(&self, x: Tensor<2>, output: Tensor<2>) -> Loss;

    /// g, on which penalties act: `[N, dz] → [N, dx]`.
    fn generator(&self) -> Generator<'_>;

    /// The same model in another basis of its latents: `z′ = z · basis.forward` with the generator
    /// unchanged as a map of data; `None` when its layers cannot absorb a change of basis.
    fn in_basis(self, _basis: &LatentBasis) -> Option<Self> {
        None
    }

    /// Variance of the posterior of each sample: `[N, dz]`; ones for a model without one.
    fn posterior_variance(&self, x: Tensor<2>) -> Tensor<2> {
        self.encode(x).ones_like()
    }

    /// The mean code of `x [N, dx]`: `[N, dz]`.
    fn encode(&self, x: Tensor<2>) -> Tensor<2>;

    /// What the model shows for `z [N, dz]`: `[N, dx]`, in the data's own units.
    fn decode(&self, z: Tensor<2>) -> Tensor<2>;
}
