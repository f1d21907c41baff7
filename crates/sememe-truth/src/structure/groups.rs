//! Two groups of observed variables: what their index sets share and do not, and what the theory separates.
//!
//! For groups K and V with index sets `I_K`, `I_V` (after the right
//! permutation of the estimated latents) `∂Z_i/∂Ẑ_j = 0` is claimed for
//!
//! 1. i in `I_K ∩ I_V`, j in `I_K △ I_V`,
//! 2. i in `I_K △ I_V`, j in `I_K ∩ I_V`,
//! 3. i in `I_K \ I_V`, j in `I_V \ I_K`, or the reverse.
//!
//! [`Comparison::zeros`] lists these. [`super::verdicts`] says which of them follow from
//! sparsity alone, and why the second kind does not always.
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, definition of set-theoretic indeterminacy.

use super::{Group, Latents, Support, SupportError};

/// Two index sets and their algebra.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// `I_K`.
    pub index_k: Latents,
    /// `I_V`.
    pub index_v: Latents,
    /// `I_K ∩ I_V`.
    pub intersection: Latents,
    /// `I_K \ I_V`.
    pub only_k: Latents,
    /// `I_V \ I_K`.
    pub only_v: Latents,
    /// `I_K △ I_V`.
    pub symmetric_difference: Latents,
}

/// Compares the index sets of two groups.
pub fn compare(support: &Support, k: &Group, v: &Group) -> Result<Comparison, SupportError> {
    k.check(support)?;
    v.check(support)?;
    let (index_k, index_v) = (support.index_set(&k.observed), support.index_set(&v.observed));
    Ok(Comparison {
        intersection: &index_k & &index_v,
        only_k: &index_k - &index_v,
        only_v: &index_v - &index_k,
        symmetric_difference: &index_k ^ &index_v,
        index_k,
        index_v,
    })
}

impl Comparison {
    /// The pairs (i, j) with `∂Z_i/∂Ẑ_j = 0` by cases 1 to 3, with the case.
    pub fn zeros(&self) -> Vec<(usize, usize, u8)> {
        let pairs = |is: &Latents, js: &Latents, case: u8| -> Vec<(usize, usize, u8)> {
            is.iter().flat_map(|&i| js.iter().map(move |&j| (i, j, case))).collect()
        };
        [
            pairs(&self.intersection, &self.symmetric_difference, 1),
            pairs(&self.symmetric_difference, &self.intersection, 2),
            pairs(&self.only_k, &self.only_v, 3),
            pairs(&self.only_v, &self.only_k, 3),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::support;
    use super::*;

    #[test]
    fn sets_and_zeros_by_hand() {
        let s = support(&[&[1, 1, 0], &[0, 1, 1]]);
        let group = |name: &str, observed| Group { name: name.into(), observed };
        let Ok(c) = compare(&s, &group("K", vec![0]), &group("V", vec![1])) else { panic!("valid groups") };
        assert_eq!((c.intersection.clone(), c.only_k.clone(), c.only_v.clone()), ([1].into(), [0].into(), [2].into()));
        assert_eq!(c.zeros(), [(1, 0, 1), (1, 2, 1), (0, 1, 2), (2, 1, 2), (0, 2, 3), (2, 0, 3)]);
    }
}
