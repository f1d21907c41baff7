//! Compositional contrast: every observed variable should depend on one slot of latents only.
//!
//! `Σ_i Σ_{k<l} ‖J_i,k‖ ‖J_i,l‖`, where `J_i,k` is the part of row i that
//! belongs to slot k. It is zero iff no observed variable depends on two slots.
//!
//! # Source
//! Brady et al. 2023, *Provably learning object-centric representations*, eq. 7.

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, PenaltyError, Point, norm};

/// `Σ_i Σ_{k<l} ‖J_i,k‖ ‖J_i,l‖`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompositionalContrast {
    /// Sizes of the slots, consecutive latents, together dz. Empty: each latent is a slot.
    pub slots: Vec<usize>,
}

impl Member for CompositionalContrast {
    const ABOUT: &'static str = "compositional contrast: each observed variable depends on one slot of latents";
    const SOURCE: &'static str = "Brady et al. 2023, eq. 7";
}

impl Penalty for CompositionalContrast {
    fn needs(&self) -> Needs {
        Needs::AllColumns
    }

    fn check(&self, dz: usize, _dx: usize) -> Result<(), PenaltyError> {
        let error = |got: String, expected: String| Err(PenaltyError { penalty: "compositional-contrast", key: "slots", got, expected });
        if self.slots.contains(&0) {
            return error(format!("{:?}", self.slots), "every slot holds at least one latent".into());
        }
        let total: usize = self.slots.iter().sum();
        if !self.slots.is_empty() && total != dz {
            return error(format!("{:?}, together {total}", self.slots), format!("the sizes must add up to the {dz} latents"));
        }
        Ok(())
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let columns = at.columns();
        let dz = columns.values.dims()[0];
        let ones = vec![1; dz];
        let slots = if self.slots.is_empty() { &ones } else { &self.slots };
        let mut start = 0;
        let norms: Vec<Tensor<3>> = slots
            .iter()
            .map(|&size| {
                start += size;
                norm(columns.values.clone().narrow(0, start - size, size), 0)
            })
            .collect();
        // Σ_{k<l} a_k a_l = ½((Σ a)² − Σ a²), per observed variable.
        let norms = Tensor::cat(norms, 0);
        let sum = norms.clone().sum_dim(0);
        let squares = (norms.clone() * norms).sum_dim(0);
        columns.batch_mean((sum.clone() * sum - squares) * 0.5)
    }
}
