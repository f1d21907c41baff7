//! Group sparsity over the user's own groups of observed variables: `Σ_G Σ_j ‖J_Gj‖₂`.
//!
//! A latent pays once for a group of observed variables, however many of them
//! it moves: pixels of one region, genes of one pathway, one sensor's channels.
//! Observed variables in no group are not penalised.
//!
//! # Source
//! Yuan & Lin 2006, eq. 2.1, on the blocks `J_Gj`.

use burn::tensor::{Int, Tensor, TensorData};
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, PenaltyError, Point, norm};

/// `Σ_G Σ_j ‖J_Gj‖₂`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupUser {
    /// Each group lists indices of observed variables, from 0. Empty: all observed variables are one group.
    pub groups: Vec<Vec<usize>>,
}

impl Member for GroupUser {
    const ABOUT: &'static str = "column norms within the user's groups of observed variables";
    const SOURCE: &'static str = "Yuan & Lin 2006, eq. 2.1, on blocks";
}

impl Penalty for GroupUser {
    fn needs(&self) -> Needs {
        Needs::Columns
    }

    fn check(&self, _dz: usize, dx: usize) -> Result<(), PenaltyError> {
        let error = |got: String, expected: String| Err(PenaltyError { penalty: "group-user", key: "groups", got, expected });
        for (number, group) in self.groups.iter().enumerate() {
            if group.is_empty() {
                return error(format!("empty at group {number}"), "list at least one observed variable a group".into());
            }
            if let Some(index) = group.iter().find(|&&index| index >= dx) {
                return error(format!("{index} in group {number}"), format!("indices run from 0 to {}", dx - 1));
            }
        }
        Ok(())
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let columns = at.columns();
        if self.groups.is_empty() {
            return columns.batch_mean(norm(columns.values.clone(), 2));
        }
        let device = columns.values.device();
        let blocks = self.groups.iter().map(|group| {
            let indices: Vec<i64> = group.iter().map(|&i| i as i64).collect();
            let length = indices.len();
            let indices = Tensor::<1, Int>::from_data(TensorData::new(indices, [length]), &device);
            columns.batch_mean(norm(columns.values.clone().select(2, indices), 2))
        });
        blocks.reduce(|a, b| a + b).unwrap_or_else(|| columns.values.clone().sum() * 0.0)
    }
}
