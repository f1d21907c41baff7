//! Group sparsity of the rows: `Σ_i ‖J_i:‖₂`, which makes observed variables independent of all latents.
//!
//! # Source
//! Yuan & Lin 2006, eq. 2.1, on the rows of J.

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, Point, norm};

/// `Σ_i ‖J_i:‖₂`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupObserved {}

impl Member for GroupObserved {
    const ABOUT: &'static str = "the sum of the Jacobian's row norms: sparse in whole observed variables";
    const SOURCE: &'static str = "Yuan & Lin 2006, eq. 2.1, on rows";
}

impl Penalty for GroupObserved {
    fn needs(&self) -> Needs {
        Needs::AllColumns
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let columns = at.columns();
        columns.batch_mean(norm(columns.values.clone(), 0))
    }
}
