//! The Venn atoms of a structure: the smallest disjoint cells into which the index sets of groups cut the latents.
//!
//! Latents j and l lie in one atom iff every group's index set `I_K` contains
//! both or neither. Latents in no index set form the atom of no group.
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, §3 (atomic regions of the Venn diagram).

use std::collections::BTreeMap;

use super::{Latents, Support, SupportError};

/// A named group of observed variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// As shown.
    pub name: String,
    /// Indices of observed variables.
    pub observed: Vec<usize>,
}

impl Group {
    /// Refuses an empty group and indices out of range.
    pub fn check(&self, support: &Support) -> Result<(), SupportError> {
        if self.observed.is_empty() {
            return Err(SupportError::GroupEmpty(self.name.clone()));
        }
        match self.observed.iter().find(|&&index| index >= support.rows()) {
            Some(&index) => Err(SupportError::GroupIndex { group: self.name.clone(), index, last: support.rows() - 1 }),
            None => Ok(()),
        }
    }
}

/// A cell of the Venn diagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atom {
    /// Which groups' index sets contain it (indices into the groups).
    pub groups: Vec<usize>,
    /// Its latents.
    pub latents: Latents,
}

/// One group for each distinct row of the structure.
pub fn row_groups(support: &Support) -> Vec<Group> {
    let distinct = support.distinct_rows();
    distinct
        .iter()
        .map(|&first| {
            let observed: Vec<usize> = (0..support.rows()).filter(|&i| support.row_set(i) == support.row_set(first)).collect();
            let name = if observed.len() == 1 { format!("x{first}") } else { format!("x{first}+{}", observed.len() - 1) };
            Group { name, observed }
        })
        .collect()
}

/// The non-empty atoms, those of most groups first.
pub fn atoms(support: &Support, groups: &[Group]) -> Result<Vec<Atom>, SupportError> {
    for group in groups {
        group.check(support)?;
    }
    let sets: Vec<Latents> = groups.iter().map(|group| support.index_set(&group.observed)).collect();
    let mut cells: BTreeMap<Vec<usize>, Latents> = BTreeMap::new();
    for j in 0..support.latents() {
        let inside = (0..groups.len()).filter(|&k| sets[k].contains(&j)).collect();
        cells.entry(inside).or_default().insert(j);
    }
    let mut atoms: Vec<Atom> = cells.into_iter().map(|(groups, latents)| Atom { groups, latents }).collect();
    atoms.sort_by_key(|atom| std::cmp::Reverse(atom.groups.len()));
    Ok(atoms)
}

#[cfg(test)]
mod tests {
    use super::super::support;
    use super::*;

    #[test]
    fn two_overlapping_groups_make_three_atoms() {
        let s = support(&[&[1, 1, 0, 0], &[0, 1, 1, 0]]);
        let Ok(atoms) = atoms(&s, &row_groups(&s)) else { panic!("valid groups") };
        let cells: Vec<(Vec<usize>, Vec<usize>)> = atoms.into_iter().map(|a| (a.groups, a.latents.into_iter().collect())).collect();
        assert_eq!(cells, [(vec![0, 1], vec![1]), (vec![0], vec![0]), (vec![1], vec![2]), (vec![], vec![3])]);
    }

    #[test]
    fn groups_out_of_range_are_refused() {
        let s = support(&[&[1, 1]]);
        let group = |observed| Group { name: "K".into(), observed };
        assert_eq!(atoms(&s, &[group(vec![1])]), Err(SupportError::GroupIndex { group: "K".into(), index: 1, last: 0 }));
        assert_eq!(atoms(&s, &[group(vec![])]), Err(SupportError::GroupEmpty("K".into())));
    }
}
