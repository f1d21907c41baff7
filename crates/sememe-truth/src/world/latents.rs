//! Distributions of true latents, each latent of mean 0 and variance 1.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::WorldError;
use crate::Matrix;
use crate::random::Stream;

/// How true latents are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LatentDistribution {
    /// Independent, normal.
    #[default]
    Gaussian,
    /// Independent, uniform on ±√3.
    Uniform,
    /// Independent, Laplace of scale 1/√2.
    Laplace,
    /// Normal with this correlation between every two latents, in [0, 1).
    Correlated(f64),
}

/// One standard normal number.
pub(super) fn normal(stream: &mut Stream) -> f64 {
    StandardNormal.sample(stream)
}

impl LatentDistribution {
    /// Refuses a correlation outside [0, 1).
    pub fn check(self) -> Result<(), WorldError> {
        match self {
            Self::Correlated(rho) if !(0.0..1.0).contains(&rho) => Err(WorldError::Setting {
                key: "latents",
                got: format!("correlated = {rho}"),
                expected: "give a correlation from 0 to below 1".into(),
            }),
            _ => Ok(()),
        }
    }

    /// `[samples, dz]`.
    pub fn draw(self, samples: usize, dz: usize, stream: &mut Stream) -> Matrix {
        let mut latents = Matrix::zeros(samples, dz);
        for n in 0..samples {
            let shared = if let Self::Correlated(_) = self { normal(stream) } else { 0.0 };
            for j in 0..dz {
                latents[(n, j)] = match self {
                    Self::Gaussian => normal(stream),
                    Self::Uniform => stream.random_range(-1.0..1.0) * 3.0_f64.sqrt(),
                    Self::Laplace => {
                        let u: f64 = stream.random_range(-0.5..0.5);
                        -u.signum() * (1.0 - 2.0 * u.abs()).max(f64::MIN_POSITIVE).ln() * std::f64::consts::FRAC_1_SQRT_2
                    }
                    Self::Correlated(rho) => rho.sqrt() * shared + (1.0 - rho).sqrt() * normal(stream),
                };
            }
        }
        latents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    #[test]
    fn moments_are_standard() {
        for distribution in
            [LatentDistribution::Gaussian, LatentDistribution::Uniform, LatentDistribution::Laplace, LatentDistribution::Correlated(0.5)]
        {
            let z = distribution.draw(40_000, 2, &mut stream(5, "latents"));
            let mean = |f: &dyn Fn(usize) -> f64| (0..z.nrows()).map(f).sum::<f64>() / z.nrows() as f64;
            let (m, v, c) = (mean(&|n| z[(n, 0)]), mean(&|n| z[(n, 0)].powi(2)), mean(&|n| z[(n, 0)] * z[(n, 1)]));
            let expected = if distribution == LatentDistribution::Correlated(0.5) { 0.5 } else { 0.0 };
            assert!(m.abs() < 0.02 && (v - 1.0).abs() < 0.05 && (c - expected).abs() < 0.03, "{distribution:?}: {m} {v} {c}");
        }
    }
}
