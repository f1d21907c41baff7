//! Which columns of the Jacobian are computed: all, those of the most active latents, those above a threshold, or a random subset.
//!
//! The chosen directions of sample n are unit vectors times a pin:
//! `v_c = p_j e_j`, `j = j(c, n)`, where `p_j` is the standard deviation of
//! latent j when scale pinning is on (a column times std(z_j) does not change
//! when the latent is scaled up and the decoder down) and 1 otherwise.
//!
//! A random subset of m of dz columns is unbiased for a sum over all columns
//! after multiplication by dz/m. The active columns are no such estimate: they
//! are the columns of the latents that matter for the sample, so their sum stands as it is.

use burn::tensor::{Int, Tensor, TensorData};
use rand::seq::index;
use sememe_truth::random::Stream;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Dual;

/// Which columns of the Jacobian a penalty sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnChoice {
    /// All dz columns.
    #[default]
    All,
    /// The k latents with the largest |z|, sample by sample.
    MostActive(usize),
    /// The latents with |z| above the threshold, sample by sample.
    Above(f64),
    /// m columns drawn anew each step, the same for all samples; sums are scaled by dz/m.
    Random(usize),
}

/// A choice that the model cannot meet.
#[derive(Debug, Error, PartialEq)]
pub enum ColumnChoiceError {
    /// No column, or more than there are.
    #[error("`columns` asks for {asked} of {dz} latents; give a number from 1 to {dz}")]
    Count {
        /// How many were asked for.
        asked: usize,
        /// How many there are.
        dz: usize,
    },
    /// A threshold that no |z| can be compared with.
    #[error("`columns.above` is {0}; give a finite number ≥ 0")]
    Threshold(f64),
}

impl ColumnChoice {
    /// Refuses a choice that a model of `dz` latents cannot meet.
    pub fn check(self, dz: usize) -> Result<(), ColumnChoiceError> {
        match self {
            Self::MostActive(asked) | Self::Random(asked) if asked == 0 || asked > dz => Err(ColumnChoiceError::Count { asked, dz }),
            Self::Above(threshold) if !threshold.is_finite() || threshold < 0.0 => Err(ColumnChoiceError::Threshold(threshold)),
            _ => Ok(()),
        }
    }
}

/// The directions that are pushed forward, and what their columns mean.
#[derive(Clone, Debug)]
pub struct Directions {
    /// `v [k, N, dz]`, pins included.
    seeds: Tensor<3>,
    /// The pins `[dz]`, when the directions are those of all latents in order.
    every: Option<Tensor<1>>,
    /// Factor that makes a sum over the chosen columns estimate the sum over all.
    scale: f64,
}

impl Directions {
    /// The directions for `latents [N, dz]` under `choice`; `pins [dz]` multiply the columns, `None` means 1.
    pub fn choose(choice: ColumnChoice, latents: &Tensor<2>, pins: Option<Tensor<1>>, stream: &mut Stream) -> Self {
        let [samples, dz] = latents.dims();
        let device = latents.device();
        let pins = pins.unwrap_or_else(|| Tensor::ones([dz], &device));
        let shared = |indices: &[usize]| {
            let mut unit = vec![0.0_f32; indices.len() * dz];
            for (c, &j) in indices.iter().enumerate() {
                unit[c * dz + j] = 1.0;
            }
            let unit = Tensor::<2>::from_data(TensorData::new(unit, [indices.len(), dz]), &device) * pins.clone().unsqueeze::<2>();
            unit.unsqueeze_dim::<3>(1).expand([indices.len(), samples, dz])
        };
        match choice {
            ColumnChoice::Random(m) if m < dz => {
                let indices = index::sample(stream, dz, m).into_vec();
                Self { seeds: shared(&indices), every: None, scale: dz as f64 / m as f64 }
            }
            ColumnChoice::All | ColumnChoice::Random(_) => {
                let indices: Vec<usize> = (0..dz).collect();
                Self { seeds: shared(&indices), every: Some(pins), scale: 1.0 }
            }
            ColumnChoice::MostActive(k) => Self { seeds: Self::ranked(latents, k, None, &pins), every: None, scale: 1.0 },
            ColumnChoice::Above(threshold) => Self { seeds: Self::ranked(latents, dz, Some(threshold), &pins), every: None, scale: 1.0 },
        }
    }

    /// Directions of the latents by falling |z|, sample by sample; below the threshold a direction is 0.
    fn ranked(latents: &Tensor<2>, k: usize, threshold: Option<f64>, pins: &Tensor<1>) -> Tensor<3> {
        let [samples, dz] = latents.dims();
        let device = latents.device();
        let activity: Vec<f32> = latents.clone().detach().abs().into_data().iter::<f32>().collect();
        let order: Vec<Vec<usize>> = activity
            .chunks(dz.max(1))
            .map(|row| {
                let mut order: Vec<usize> = (0..dz).collect();
                order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
                order.retain(|&j| threshold.is_none_or(|threshold| f64::from(row[j]) > threshold));
                order
            })
            .collect();
        let widest = order.iter().map(Vec::len).max().unwrap_or(0).clamp(1, k);
        let mut unit = vec![0.0_f32; widest * samples * dz];
        for (n, order) in order.iter().enumerate() {
            for (c, &j) in order.iter().take(widest).enumerate() {
                unit[(c * samples + n) * dz + j] = 1.0;
            }
        }
        Tensor::<3>::from_data(TensorData::new(unit, [widest, samples, dz]), &device) * pins.clone().unsqueeze::<3>()
    }

    /// The tangents to push forward: `[k·N, dz]`.
    pub fn tangents(&self) -> Tensor<2> {
        let [k, samples, dz] = self.seeds.dims();
        self.seeds.clone().reshape([k * samples, dz])
    }

    /// How many columns a sample has.
    pub fn count(&self) -> usize {
        self.seeds.dims()[0]
    }

    /// Factor that makes a sum over these columns estimate the sum over all.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Whether these are all latents in order, so that a closed form of the whole Jacobian may serve.
    pub fn is_every_latent(&self) -> bool {
        self.every.is_some()
    }

    /// The pins as factors of the rows of `whole.tangents [dz·N, dx]`: `[dz·N, 1]`.
    pub(super) fn scale_of_columns(&self, whole: &Dual<2>) -> Tensor<2> {
        let samples = whole.value.dims()[0];
        let pins = self.every.clone().unwrap_or_else(|| Tensor::ones([self.count()], &whole.value.device()));
        let dz = pins.dims()[0];
        pins.unsqueeze_dim::<2>(1).expand([dz, samples]).reshape([dz * samples, 1])
    }

    /// Which latent each direction belongs to, `[k, N]`: the index of its largest entry.
    pub fn latent_of(&self) -> Tensor<2, Int> {
        self.seeds.clone().detach().abs().argmax(2).squeeze_dim::<2>(2)
    }
}
