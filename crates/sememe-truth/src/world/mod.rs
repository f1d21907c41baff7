//! Worlds of known truth: data whose latents, generator and Jacobian are known exactly.
//!
//! To add a world: its own file with a config that implements [`World`], and one line in [`WorldKind`].

mod latents;
mod structures;
mod synthetic;
mod three_dots;

use thiserror::Error;

use crate::Matrix;
use crate::random::Stream;
use crate::structure::{Support, SupportError};

pub use latents::LatentDistribution;
pub use structures::{Structure, StructureConfig};
pub use synthetic::Synthetic;
pub use three_dots::ThreeDots;

/// Why a world cannot be built.
#[derive(Debug, Error, PartialEq)]
pub enum WorldError {
    /// A setting that makes no sense.
    #[error("`{key}` is {got}; {expected}")]
    Setting {
        /// The key at fault.
        key: &'static str,
        /// Its value.
        got: String,
        /// What it may be.
        expected: String,
    },
    /// A support matrix that is none.
    #[error("`support`: {0}")]
    Support(#[from] SupportError),
    /// No draw of the generator was well conditioned.
    #[error(
        "no generator of {draws} draws was conditioned better than {wanted} (smallest over largest singular value of the Jacobian, best {best:.3}); \
         raise `draws`, lower `conditioning`, or choose another structure or more observed variables"
    )]
    Conditioning {
        /// How many were drawn.
        draws: usize,
        /// The bound.
        wanted: f64,
        /// The best draw.
        best: f64,
    },
}

/// Samples with their latents.
#[derive(Clone, Debug)]
pub struct Sample {
    /// True latents `[N, dz]`.
    pub latents: Matrix,
    /// Observed variables `[N, dx]`, noise included.
    pub observed: Matrix,
}

/// The config of a world.
pub trait World {
    /// Refuses settings that make no sense.
    fn check(&self) -> Result<(), WorldError>;

    /// The world of this config and seed.
    fn build(&self, seed: u64) -> Result<Box<dyn Generator>, WorldError>;
}

/// A world that can be sampled.
pub trait Generator: Send + Sync {
    /// Names of the latents, dz of them.
    fn factors(&self) -> Vec<String>;

    /// dx.
    fn observed_count(&self) -> usize;

    /// dz.
    fn latent_count(&self) -> usize {
        self.factors().len()
    }

    /// `N` latents `[N, dz]`.
    fn draw_latents(&self, samples: usize, stream: &mut Stream) -> Matrix;

    /// `g(z)` without noise: `[N, dz] → [N, dx]`.
    fn observe(&self, latents: &Matrix) -> Matrix;

    /// `J = ∂g/∂z [dx, dz]` at one z, exactly.
    fn jacobian(&self, latent: &[f64]) -> Matrix;

    /// Standard deviation of the noise on every observed variable.
    fn noise(&self) -> f64 {
        0.0
    }

    /// The dependency structure.
    fn support(&self) -> Option<Support>;

    /// `[C, H, W]` when the observed variables are pixels.
    fn image_shape(&self) -> Option<[usize; 3]> {
        None
    }

    /// `N` samples.
    fn sample(&self, samples: usize, stream: &mut Stream) -> Sample {
        let latents = self.draw_latents(samples, stream);
        let mut observed = self.observe(&latents);
        if self.noise() > 0.0 {
            for i in 0..observed.nrows() {
                for j in 0..observed.ncols() {
                    observed[(i, j)] += self.noise() * latents::normal(stream);
                }
            }
        }
        Sample { latents, observed }
    }
}

crate::catalogue! {
    /// Every world, by the tag that configs use.
    pub enum WorldKind: World {
        "synthetic" => Synthetic(synthetic::Synthetic),
        "three-dots" => ThreeDots(three_dots::ThreeDots),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    /// Laws of every world: the Jacobian is that of `observe`, lies within the support, and the same seed gives the same bits.
    #[test]
    fn laws_of_every_world() {
        for kind in WorldKind::defaults() {
            let Ok(world) = kind.member().build(3) else { panic!("{}: the default builds", kind.tag()) };
            let sample = world.sample(40, &mut stream(1, "test"));
            let again = world.sample(40, &mut stream(1, "test"));
            assert_eq!((sample.latents.nrows(), sample.latents.ncols()), (40, world.latent_count()));
            assert_eq!((sample.observed.nrows(), sample.observed.ncols()), (40, world.observed_count()));
            assert_eq!(sample.observed, again.observed, "{}", kind.tag());
            let Some(support) = world.support() else { panic!("{}: no support", kind.tag()) };
            for n in 0..5 {
                let z: Vec<f64> = (0..world.latent_count()).map(|j| sample.latents[(n, j)]).collect();
                let jacobian = world.jacobian(&z);
                for j in 0..z.len() {
                    let at = |step: f64| {
                        let moved = Matrix::from_fn(1, z.len(), |_, l| if l == j { z[l] + step } else { z[l] });
                        world.observe(&moved)
                    };
                    let (up, down) = (at(1e-6), at(-1e-6));
                    for i in 0..world.observed_count() {
                        let difference = (up[(0, i)] - down[(0, i)]) / 2e-6;
                        assert!(
                            (difference - jacobian[(i, j)]).abs() < 1e-5 * (1.0 + difference.abs()),
                            "{}: ∂x{i}/∂z{j} = {} against {difference}",
                            kind.tag(),
                            jacobian[(i, j)]
                        );
                        assert!(support.get(i, j) || jacobian[(i, j)] == 0.0, "{}: ∂x{i}/∂z{j} off the support", kind.tag());
                    }
                }
            }
        }
    }
}
