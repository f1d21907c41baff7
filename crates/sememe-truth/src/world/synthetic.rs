//! Data from a generator whose Jacobian has exactly a given support: each observed variable is its own small LeakyReLU network over exactly its latents.
//!
//! Observed variable i with latents `I_i` is `x_i = (w·a_L − m)/s`,
//! `a_l = φ(W_l a_{l−1} + b_l)`, `a_0 = z[I_i]`, φ LeakyReLU. Hidden weights have
//! orthonormal columns times √(width/inputs); biases are normal, so that the
//! kinks lie within the data and there are many linear pieces; m and s make x_i
//! of mean 0 and variance 1. A network is drawn anew until its weakest latent
//! has at least `weakest` times the mean |∂| of its strongest.
//!
//! With `fan_in = f`, each unit of the first hidden layer reads f of the row's
//! latents: interactions are local, as where causes act in small groups. This
//! matters for nearly dense structures: when every unit mixes all latents
//! alike, the L1 norm of the Jacobian is not smallest at the truth but at a
//! rotation of it (L0 is), and no estimator that minimises L1 can succeed.
//!
//! The whole generator is drawn anew until the 5 % quantile over samples of
//! smallest/largest singular value of J is at least `conditioning`: recovery
//! from a generator that nearly loses a direction would be capped for reasons
//! that have nothing to do with the method.
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, §5 (MLP generators with LeakyReLU; depth, width and latents are not published).

use rand::seq::index;
use serde::{Deserialize, Serialize};

use super::latents::{LatentDistribution, normal};
use super::structures::StructureConfig;
use super::{Generator, World, WorldError};
use crate::Matrix;
use crate::catalogue::Member;
use crate::random::{Stream, stream};
use crate::structure::{Support, conditioning};

/// Config of the synthetic world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Synthetic {
    /// The support of the Jacobian.
    pub structure: StructureConfig,
    /// How latents are drawn.
    pub latents: LatentDistribution,
    /// Standard deviation of the noise, relative to each observed variable's own (which is 1).
    pub noise: f64,
    /// Hidden width of each network.
    pub width: usize,
    /// Hidden layers of each network.
    pub depth: usize,
    /// Slope of LeakyReLU below 0: the smaller, the more nonlinear.
    pub slope: f64,
    /// Standard deviation of the biases.
    pub bias_std: f64,
    /// Latents that each unit of the first layer reads; 0 means all of its row.
    pub fan_in: usize,
    /// Mean |∂| of a row's weakest latent, at least, relative to its strongest.
    pub weakest: f64,
    /// Least 5 % quantile of smallest over largest singular value.
    pub conditioning: f64,
    /// Generators that are drawn before giving up.
    pub draws: usize,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self {
            structure: StructureConfig::default(),
            latents: LatentDistribution::Gaussian,
            noise: 0.0,
            width: 16,
            depth: 2,
            slope: 0.1,
            bias_std: 1.0,
            fan_in: 2,
            weakest: 0.3,
            conditioning: 0.1,
            draws: 500,
        }
    }
}

impl Member for Synthetic {
    const ABOUT: &'static str = "LeakyReLU generator whose Jacobian has exactly a given support";
    const SOURCE: &'static str = "Zheng et al. 2026, arXiv 2604.17568, §5";
}

impl World for Synthetic {
    fn check(&self) -> Result<(), WorldError> {
        self.structure.check()?;
        self.latents.check()?;
        let setting = |key, got: f64, expected: &str| Err(WorldError::Setting { key, got: got.to_string(), expected: expected.into() });
        for (key, value) in [("noise", self.noise), ("bias_std", self.bias_std)] {
            if !(value.is_finite() && value >= 0.0) {
                return setting(key, value, "give a finite number, 0 or above");
            }
        }
        for (key, value) in [("slope", self.slope), ("weakest", self.weakest), ("conditioning", self.conditioning)] {
            if !(0.0..1.0).contains(&value) {
                return setting(key, value, "give a number from 0 to below 1");
            }
        }
        for (key, value) in [("width", self.width), ("depth", self.depth), ("draws", self.draws)] {
            if value == 0 {
                return setting(key, 0.0, "give at least 1");
            }
        }
        Ok(())
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Generator>, WorldError> {
        self.check()?;
        let mut best = 0.0_f64;
        for draw in 0..self.draws {
            let mut chance = stream(seed, &format!("world/synthetic/{draw}"));
            let support = self.structure.build(&mut chance)?;
            let probe = self.latents.draw(PROBE, support.latents(), &mut chance);
            let rows =
                (0..support.rows()).map(|i| Row::draw(self, support.row_set(i).into_iter().collect(), &probe, &mut chance)).collect();
            let world = Networks { config: self.clone(), support, rows };
            let jacobians: Vec<Matrix> = (0..PROBE / 5).map(|n| world.jacobian(&row_of(&probe, n))).collect();
            let ratio = conditioning(&jacobians).map_or(0.0, |c| c.ratio_5_percent);
            best = best.max(ratio);
            // Equal columns can never be well conditioned together with equal gradients; the bound then holds for what is there.
            if ratio >= self.conditioning {
                return Ok(Box::new(world));
            }
        }
        Err(WorldError::Conditioning { draws: self.draws, wanted: self.conditioning, best })
    }
}

/// Samples on which a draw is standardised and judged.
const PROBE: usize = 1000;
/// Draws of one network before its weakest latent is accepted as it is.
const ROW_DRAWS: usize = 100;

fn row_of(matrix: &Matrix, n: usize) -> Vec<f64> {
    (0..matrix.ncols()).map(|j| matrix[(n, j)]).collect()
}

struct Networks {
    config: Synthetic,
    support: Support,
    rows: Vec<Row>,
}

/// The network of one observed variable.
struct Row {
    /// `I_i`.
    latents: Vec<usize>,
    /// `W_l [width, inputs]` and `b_l`.
    layers: Vec<(Matrix, Vec<f64>)>,
    /// w.
    readout: Vec<f64>,
    /// m.
    mean: f64,
    /// s.
    std: f64,
    slope: f64,
}

/// Orthonormal rows or columns, whichever are fewer: Gram–Schmidt on normal numbers.
fn orthogonal(rows: usize, columns: usize, chance: &mut Stream) -> Matrix {
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut basis: Vec<Vec<f64>> = Vec::new();
    while basis.len() < count {
        let mut v: Vec<f64> = (0..length).map(|_| normal(chance)).collect();
        for b in &basis {
            let dot: f64 = v.iter().zip(b).map(|(x, y)| x * y).sum();
            v.iter_mut().zip(b).for_each(|(x, y)| *x -= dot * y);
        }
        let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        if norm > 1e-6 {
            basis.push(v.into_iter().map(|x| x / norm).collect());
        }
    }
    Matrix::from_fn(rows, columns, |i, j| if rows >= columns { basis[j][i] } else { basis[i][j] })
}

/// Rows that each read `fan` inputs, with weights of one sign or the other away from 0, of norm 1; every input is read.
fn local(rows: usize, columns: usize, fan: usize, chance: &mut Stream) -> Matrix {
    let mut weights = Matrix::zeros(rows, columns);
    for unit in 0..rows {
        let mut chosen = index::sample(chance, columns, fan).into_vec();
        if !chosen.contains(&(unit % columns)) {
            chosen[0] = unit % columns;
        }
        let values: Vec<f64> = chosen.iter().map(|_| normal(chance)).map(|v| v.signum() * (0.5 + v.abs())).collect();
        let norm = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        for (&input, value) in chosen.iter().zip(values) {
            weights[(unit, input)] = value / norm;
        }
    }
    weights
}

impl Row {
    fn draw(config: &Synthetic, latents: Vec<usize>, probe: &Matrix, chance: &mut Stream) -> Self {
        let mut row = Self::draw_once(config, &latents, probe, chance);
        for _ in 1..ROW_DRAWS {
            let strength = row.mean_slopes(probe);
            let (weakest, strongest) =
                (strength.iter().copied().fold(f64::INFINITY, f64::min), strength.iter().copied().fold(0.0, f64::max));
            if latents.is_empty() || weakest >= config.weakest * strongest {
                break;
            }
            row = Self::draw_once(config, &latents, probe, chance);
        }
        row
    }

    fn draw_once(config: &Synthetic, latents: &[usize], probe: &Matrix, chance: &mut Stream) -> Self {
        let width = config.width.max(latents.len());
        let mut layers = Vec::new();
        let mut inputs = latents.len();
        for l in 0..config.depth {
            let weights = if l == 0 && config.fan_in > 0 && config.fan_in < inputs {
                local(width, inputs, config.fan_in, chance)
            } else {
                let gain = (width as f64 / inputs.max(1) as f64).max(1.0).sqrt();
                orthogonal(width, inputs, chance) * faer::Scale(gain)
            };
            layers.push((weights, (0..width).map(|_| config.bias_std * normal(chance)).collect()));
            inputs = width;
        }
        let readout = (0..width).map(|_| normal(chance)).collect::<Vec<f64>>();
        let norm = readout.iter().map(|w| w * w).sum::<f64>().sqrt();
        let readout = readout.into_iter().map(|w| w / norm).collect();
        let mut row = Self { latents: latents.to_vec(), layers, readout, mean: 0.0, std: 1.0, slope: config.slope };
        let values: Vec<f64> = (0..probe.nrows()).map(|n| row.value(&row_of(probe, n))).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let std = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
        (row.mean, row.std) = (mean, if std > 0.0 { std } else { 1.0 });
        row
    }

    /// The activations of all layers, input first, and the pre-activations.
    fn forward(&self, z: &[f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
        let mut a: Vec<f64> = self.latents.iter().map(|&j| z[j]).collect();
        let mut pre = Vec::with_capacity(self.layers.len());
        for (weights, bias) in &self.layers {
            let u: Vec<f64> =
                (0..weights.nrows()).map(|r| bias[r] + a.iter().enumerate().map(|(c, x)| weights[(r, c)] * x).sum::<f64>()).collect();
            a = u.iter().map(|&u| if u > 0.0 { u } else { self.slope * u }).collect();
            pre.push(u);
        }
        (a, pre)
    }

    fn value(&self, z: &[f64]) -> f64 {
        let (a, _) = self.forward(z);
        (a.iter().zip(&self.readout).map(|(a, w)| a * w).sum::<f64>() - self.mean) / self.std
    }

    /// `∂x_i/∂z[I_i]`, one reverse sweep.
    fn gradient(&self, z: &[f64]) -> Vec<f64> {
        let (_, pre) = self.forward(z);
        let mut r = self.readout.clone();
        for ((weights, _), u) in self.layers.iter().zip(&pre).rev() {
            let scaled: Vec<f64> = r.iter().zip(u).map(|(r, &u)| if u > 0.0 { *r } else { self.slope * r }).collect();
            r = (0..weights.ncols()).map(|c| scaled.iter().enumerate().map(|(k, s)| s * weights[(k, c)]).sum()).collect();
        }
        r.into_iter().map(|g| g / self.std).collect()
    }

    fn mean_slopes(&self, probe: &Matrix) -> Vec<f64> {
        let mut sums = vec![0.0; self.latents.len()];
        for n in 0..probe.nrows() / 4 {
            for (sum, g) in sums.iter_mut().zip(self.gradient(&row_of(probe, n))) {
                *sum += g.abs();
            }
        }
        sums
    }
}

impl Generator for Networks {
    fn factors(&self) -> Vec<String> {
        (0..self.support.latents()).map(|j| format!("z{j}")).collect()
    }

    fn observed_count(&self) -> usize {
        self.rows.len()
    }

    fn draw_latents(&self, samples: usize, stream: &mut Stream) -> Matrix {
        self.config.latents.draw(samples, self.support.latents(), stream)
    }

    fn observe(&self, latents: &Matrix) -> Matrix {
        let mut observed = Matrix::zeros(latents.nrows(), self.rows.len());
        for n in 0..latents.nrows() {
            let z = row_of(latents, n);
            for (i, row) in self.rows.iter().enumerate() {
                observed[(n, i)] = row.value(&z);
            }
        }
        observed
    }

    fn jacobian(&self, latent: &[f64]) -> Matrix {
        let mut jacobian = Matrix::zeros(self.rows.len(), latent.len());
        for (i, row) in self.rows.iter().enumerate() {
            for (&j, g) in row.latents.iter().zip(row.gradient(latent)) {
                jacobian[(i, j)] = g;
            }
        }
        jacobian
    }

    fn noise(&self) -> f64 {
        self.config.noise
    }

    fn support(&self) -> Option<Support> {
        Some(self.support.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::row_ranks;
    use crate::world::Structure;

    /// Off the support every derivative is exactly 0, on it every one is alive, and the nonlinearity suffices.
    #[test]
    fn the_support_is_exact_and_the_nonlinearity_suffices() {
        for kind in [Structure::Diverse, Structure::DenseDiverse, Structure::Dense, Structure::SparseNotDiverse, Structure::Set] {
            let config = Synthetic {
                structure: StructureConfig { kind: kind.clone(), dz: 6, ..StructureConfig::default() },
                ..Synthetic::default()
            };
            let world = match config.build(11) {
                Ok(world) => world,
                Err(error) => panic!("{kind:?}: {error}"),
            };
            let latents = world.draw_latents(300, &mut stream(2, "test"));
            let jacobians: Vec<Matrix> = (0..300).map(|n| world.jacobian(&row_of(&latents, n))).collect();
            let Some(support) = world.support() else { panic!("no support") };
            for i in 0..support.rows() {
                for j in 0..support.latents() {
                    let largest = jacobians.iter().map(|jacobian| jacobian[(i, j)].abs()).fold(0.0, f64::max);
                    assert_eq!(support.get(i, j), largest > 0.0, "{kind:?} ({i}, {j}): {largest}");
                }
            }
            assert!(row_ranks(&jacobians, &support, 1e-6).iter().all(|rank| rank.is_sufficient()), "{kind:?}");
        }
    }

    #[test]
    fn an_impossible_bound_says_what_was_best() {
        let config = Synthetic { conditioning: 0.99, draws: 2, ..Synthetic::default() };
        let Err(error) = config.build(0) else { panic!("no generator is so well conditioned") };
        assert!(error.to_string().contains("no generator of 2 draws"), "{error}");
    }
}
