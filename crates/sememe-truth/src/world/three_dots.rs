//! Images of three dots: black discs on white, six continuous factors (x and y of each), with the exact Jacobian.
//!
//! The image is three square cells side by side and each disc moves within its
//! own; `overlap` widens the cells from disjoint (0) to the whole image (1). A pixel at p is
//!
//! `x_p = Π_d (1 − c_d)`, `c_d = s((r_d − ‖p − q_d‖)/w)`, s the smooth step
//! `s(t) = clamp(t + ½)`, cubic, so discs have soft edges of width w and the
//! Jacobian exists: `∂x_p/∂q_d = −∂c_d/∂q_d · Π_{e≠d}(1 − c_e)`.
//!
//! With disjoint cells the pixels' supports are three blocks of two: x and y of
//! a disc move the same pixels, so they can be identified only as a block.
//! Factors are scaled to ±√3 (variance 1) and are uniform.
//!
//! # Source
//! The three-dots data of Rhodes & Lee 2021 (*Local Disentanglement in Variational Auto-Encoders…*), drawn anew; not its pixels.

use rand::Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Generator, World, WorldError};
use crate::Matrix;
use crate::catalogue::Member;
use crate::random::Stream;
use crate::structure::Support;

/// Config of the three-dots world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ThreeDots {
    /// Side of a cell in pixels; the image is `cell` high and `3·cell` wide.
    pub cell: usize,
    /// Radius of a disc as a fraction of the cell's side.
    pub radius: f64,
    /// Width of the soft edge, in pixels.
    pub edge: f64,
    /// 0: disjoint cells; 1: every disc may be anywhere.
    pub overlap: f64,
    /// White discs on black instead.
    pub white_on_black: bool,
}

impl Default for ThreeDots {
    fn default() -> Self {
        Self { cell: 16, radius: 0.15, edge: 3.0, overlap: 0.0, white_on_black: false }
    }
}

impl Member for ThreeDots {
    const ABOUT: &'static str = "images of three discs, six continuous factors, exact Jacobian";
    const SOURCE: &'static str = "after Rhodes & Lee 2021; factor semantics, not pixels";
}

impl World for ThreeDots {
    fn check(&self) -> Result<(), WorldError> {
        let setting = |key, got: f64, expected: &str| Err(WorldError::Setting { key, got: got.to_string(), expected: expected.into() });
        if !(6..=256).contains(&self.cell) {
            return setting("cell", self.cell as f64, "give 6 to 256 pixels");
        }
        if !(self.radius > 0.0 && self.radius <= 0.25) {
            return setting("radius", self.radius, "give a fraction above 0, at most 0.25");
        }
        if !(self.edge > 0.0 && self.edge <= self.cell as f64 / 2.0) {
            return setting("edge", self.edge, "give a width above 0 and at most half of the cell");
        }
        if !(0.0..=1.0).contains(&self.overlap) {
            return setting("overlap", self.overlap, "give a number from 0 to 1");
        }
        let dots = Dots { config: self.clone() };
        if (0..DISCS).any(|d| (0..2).any(|axis| dots.range(d, axis).1 < 0.5)) {
            return setting(
                "radius",
                self.radius,
                "the discs have no room to move in their cells; lower `radius` or `edge`, or raise `cell` or `overlap`",
            );
        }
        Ok(())
    }

    fn build(&self, _seed: u64) -> Result<Box<dyn Generator>, WorldError> {
        self.check()?;
        Ok(Box::new(Dots { config: self.clone() }))
    }
}

const DISCS: usize = 3;
const ROOT_3: f64 = 1.732_050_807_568_877_2;

struct Dots {
    config: ThreeDots,
}

/// The smooth step and its slope: 0 below −½, 1 above ½, cubic between.
fn step(t: f64) -> (f64, f64) {
    let u = (t + 0.5).clamp(0.0, 1.0);
    (u * u * (3.0 - 2.0 * u), 6.0 * u * (1.0 - u))
}

impl Dots {
    fn reach(&self) -> f64 {
        self.config.radius * self.config.cell as f64 + self.config.edge / 2.0
    }

    /// The interval of centres of disc d along an axis, in pixels: (middle, half-length).
    fn range(&self, d: usize, axis: usize) -> (f64, f64) {
        let (cell, reach) = (self.config.cell as f64, self.reach());
        let (low, high) = if axis == 1 {
            (reach, cell - reach)
        } else {
            let (low, high) = (cell * d as f64 + reach, cell * (d + 1) as f64 - reach);
            let whole = (reach, cell * DISCS as f64 - reach);
            (low + (whole.0 - low) * self.config.overlap, high + (whole.1 - high) * self.config.overlap)
        };
        (0.5 * (low + high), 0.5 * (high - low))
    }

    /// Centre of disc d in pixels.
    fn centre(&self, z: &[f64], d: usize) -> [f64; 2] {
        [0, 1].map(|axis| {
            let (middle, half) = self.range(d, axis);
            middle + half * z[2 * d + axis] / ROOT_3
        })
    }

    /// For one pixel: coverage of each disc and its gradient in (x, y) of the disc's factors.
    fn cover(&self, z: &[f64], pixel: usize) -> [(f64, [f64; 2]); DISCS] {
        let width = DISCS * self.config.cell;
        let p = [(pixel % width) as f64 + 0.5, (pixel / width) as f64 + 0.5];
        std::array::from_fn(|d| {
            let q = self.centre(z, d);
            let offset = [p[0] - q[0], p[1] - q[1]];
            let distance = offset[0].hypot(offset[1]);
            let (c, slope) = step((self.config.radius * self.config.cell as f64 - distance) / self.config.edge);
            // ∂‖p − q‖/∂q = −(p − q)/‖p − q‖; at the centre the slope is 0 unless the disc is thinner than its edge.
            let along = |axis: usize| {
                if distance == 0.0 { 0.0 } else { slope / self.config.edge * offset[axis] / distance * self.range(d, axis).1 / ROOT_3 }
            };
            (c, [along(0), along(1)])
        })
    }

    fn shade(&self, uncovered: f64) -> f64 {
        if self.config.white_on_black { 1.0 - uncovered } else { uncovered }
    }
}

impl Generator for Dots {
    fn factors(&self) -> Vec<String> {
        (1..=DISCS).flat_map(|d| [format!("x of dot {d}"), format!("y of dot {d}")]).collect()
    }

    fn observed_count(&self) -> usize {
        DISCS * self.config.cell * self.config.cell
    }

    fn draw_latents(&self, samples: usize, stream: &mut Stream) -> Matrix {
        let mut latents = Matrix::zeros(samples, 2 * DISCS);
        for n in 0..samples {
            for j in 0..2 * DISCS {
                latents[(n, j)] = stream.random_range(-ROOT_3..ROOT_3);
            }
        }
        latents
    }

    fn observe(&self, latents: &Matrix) -> Matrix {
        let pixels = self.observed_count();
        let images: Vec<Vec<f64>> = (0..latents.nrows())
            .into_par_iter()
            .map(|n| {
                let z: Vec<f64> = (0..latents.ncols()).map(|j| latents[(n, j)]).collect();
                (0..pixels).map(|p| self.shade(self.cover(&z, p).iter().map(|(c, _)| 1.0 - c).product())).collect()
            })
            .collect();
        Matrix::from_fn(images.len(), pixels, |n, p| images[n][p])
    }

    fn jacobian(&self, latent: &[f64]) -> Matrix {
        let mut jacobian = Matrix::zeros(self.observed_count(), 2 * DISCS);
        let sign = if self.config.white_on_black { 1.0 } else { -1.0 };
        for p in 0..self.observed_count() {
            let cover = self.cover(latent, p);
            for d in 0..DISCS {
                let others: f64 = (0..DISCS).filter(|&e| e != d).map(|e| 1.0 - cover[e].0).product();
                for axis in 0..2 {
                    jacobian[(p, 2 * d + axis)] = sign * cover[d].1[axis] * others;
                }
            }
        }
        jacobian
    }

    fn support(&self) -> Option<Support> {
        let (width, reach) = (DISCS * self.config.cell, self.reach());
        Support::from_fn(self.observed_count(), 2 * DISCS, |p, j| {
            let at = [(p % width) as f64 + 0.5, (p / width) as f64 + 0.5];
            let outside = [0, 1].map(|axis| {
                let (middle, half) = self.range(j / 2, axis);
                ((at[axis] - middle).abs() - half).max(0.0)
            });
            outside[0].hypot(outside[1]) < reach
        })
        .ok()
    }

    fn image_shape(&self) -> Option<[usize; 3]> {
        Some([1, self.config.cell, DISCS * self.config.cell])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::{Verdict, verdicts};

    /// Disjoint cells make three blocks of two.
    #[test]
    fn disjoint_bands_identify_blocks() {
        let Ok(world) = ThreeDots::default().build(0) else { panic!("the default builds") };
        let Some(support) = world.support() else { panic!("a support") };
        for (j, verdict) in verdicts(&support).into_iter().enumerate() {
            assert_eq!(verdict, Verdict::Block([j / 2 * 2, j / 2 * 2 + 1].into()));
        }
    }

    #[test]
    fn a_disc_is_black_at_its_centre_and_white_far_away() {
        let Ok(world) = (ThreeDots { edge: 1.0, ..ThreeDots::default() }).build(0) else { panic!("it builds") };
        let image = world.observe(&Matrix::zeros(1, 6));
        let at = |x: usize, y: usize| image[(0, y * 48 + x)];
        assert!(at(8, 8) < 0.01 && at(24, 8) < 0.01 && at(8, 1) > 0.99);
    }
}
