//! Group sparsity of the columns: `Σ_j ‖J_:j‖₂`, which switches whole latents off.
//!
//! # Source
//! Yuan & Lin 2006, *Model selection and estimation in regression with grouped variables*, eq. 2.1, on the columns of J.

use burn::tensor::Tensor;
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::{Needs, Penalty, Point, norm};

/// `Σ_j ‖J_:j‖₂`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupLatent {}

impl Member for GroupLatent {
    const ABOUT: &'static str = "the sum of the Jacobian's column norms: sparse in whole latents";
    const SOURCE: &'static str = "Yuan & Lin 2006, eq. 2.1, on columns";
}

impl Penalty for GroupLatent {
    fn needs(&self) -> Needs {
        Needs::Columns
    }

    fn value(&self, at: &Point<'_>) -> Tensor<1> {
        let columns = at.columns();
        columns.batch_mean(norm(columns.values.clone(), 2))
    }
}
