//! Which latents sparsity identifies alone, which only together with others, and why.
//!
//! Let `M_j` be the observed variables that depend on latent j. If `ĝ` explains
//! the data with a Jacobian of the same support, then
//! `J_ĝ = J_g · ∂Z/∂Ẑ`, and by sufficient nonlinearity the rows of `J_g` at
//! observed variable r span all of `R^{I_r}`. So for i in `I_r` the row
//! `∂Z_i/∂Ẑ` lies within `I_r`: `∂Z_i/∂Ẑ_j = 0` whenever some r depends on
//! i and not on j, that is unless `M_i ⊆ M_j`. Hence
//!
//! - `M_i = M_j`: nothing separates i and j; they are one **block**;
//! - `M_i ⊂ M_j`: Z_i may contain Ẑ_j, but not the reverse; i is **entangled** with j;
//! - neither for any j: i is identified **alone**, up to an element-wise map.
//!
//! Departs from the source: sufficient diversity (forms 1 and 2) also admits
//! latents with `M_i ⊂ M_j`. Take `x₀ = f(z₀, z₁)`, `x₁ = h(z₁)`: latent 0 meets
//! form 1, but `ẑ₀ = z₀ − z₁` gives `x₀ = f(ẑ₀ + ẑ₁, ẑ₁)` with the same support,
//! so sparsity cannot tell z₀ from ẑ₀. We report the form and its witness, and
//! call latent 0 entangled with latent 1.
//!
//! # Source
//! The argument of Zheng et al. 2026, arXiv 2604.17568, theorems 1 and 3, restricted to what the supports force.

use std::collections::BTreeSet;

use super::{Latents, Support};

/// What sparsity of the Jacobian can say of one latent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Identified up to an element-wise invertible map.
    Alone,
    /// Identified only together with these (itself included): the same observed variables depend on all of them.
    Block(Latents),
    /// Identified up to mixing in these, on which more observed variables depend; `block` as in [`Verdict::Block`], or itself alone.
    Entangled {
        /// Latents with the same column, itself included.
        block: Latents,
        /// Latents whose column contains its own.
        with: Latents,
    },
    /// No observed variable depends on it: the data say nothing of it.
    Unseen,
}

/// A verdict for each latent.
pub fn verdicts(support: &Support) -> Vec<Verdict> {
    let columns: Vec<BTreeSet<usize>> = (0..support.latents()).map(|j| support.column_set(j)).collect();
    (0..columns.len())
        .map(|i| {
            if columns[i].is_empty() {
                return Verdict::Unseen;
            }
            let block: Latents = (0..columns.len()).filter(|&j| columns[j] == columns[i]).collect();
            let with: Latents = (0..columns.len()).filter(|&j| columns[j] != columns[i] && columns[j].is_superset(&columns[i])).collect();
            match (block.len(), with.is_empty()) {
                (1, true) => Verdict::Alone,
                (_, true) => Verdict::Block(block),
                (_, false) => Verdict::Entangled { block, with },
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Form, diversity, support};
    use super::*;

    #[test]
    fn verdicts_by_hand() {
        // Latents 0 and 1 share a column; 2 is contained in 3; 3 is alone; 4 is unseen.
        let s = support(&[&[1, 1, 0, 0, 0], &[0, 0, 1, 1, 0], &[0, 0, 0, 1, 0]]);
        let block = Latents::from([0, 1]);
        let entangled = Verdict::Entangled { block: [2].into(), with: [3].into() };
        assert_eq!(verdicts(&s), [Verdict::Block(block.clone()), Verdict::Block(block), entangled, Verdict::Alone, Verdict::Unseen]);
    }

    /// The counterexample of the module's head, in numbers: form 1 holds for latent 0, and two
    /// generators of equal support explain the same data from latents that differ by a mixture.
    #[test]
    fn form_one_does_not_exclude_a_mixture_with_a_containing_column() {
        let s = support(&[&[1, 1], &[0, 1]]);
        assert!(diversity(&s)[0].iter().any(|w| w.form == Form::OnlyInOne));
        assert_eq!(verdicts(&s)[0], Verdict::Entangled { block: [0].into(), with: [1].into() });
        let f = |a: f64, b: f64| (1.3 * a).sin() + a * a * b + 0.5 * b;
        let g = |z: [f64; 2]| [f(z[0], z[1]), z[1] + 0.1 * z[1].powi(3)];
        let mixed = |z: [f64; 2]| g([z[0] + z[1], z[1]]);
        let slope = |map: &dyn Fn([f64; 2]) -> [f64; 2], i: usize, j: usize, z: [f64; 2]| {
            let mut there = z;
            there[j] += 1e-6;
            (map(there)[i] - map(z)[i]) / 1e-6
        };
        for z in [[0.3, -0.7], [1.1, 0.4], [-0.6, 0.9]] {
            assert!((g(z)[0] - mixed([z[0] - z[1], z[1]])[0]).abs() < 1e-12);
            for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                assert_eq!(slope(&g, i, j, z).abs() > 1e-9, slope(&mixed, i, j, z).abs() > 1e-9);
            }
        }
    }
}
