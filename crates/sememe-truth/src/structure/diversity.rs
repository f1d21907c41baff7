//! Sufficient diversity, latent by latent: which form of the assumption holds, and by which witness.
//!
//! For latent i there must be a set A of observed variables with one of
//!
//! 1. `∪_A I = [dz]` and some k in A with `I_k \ ∪_{A\k} I = {i}`,
//! 2. `∪_A I = [dz]` and some k in A with `(∩_{A\k} I) \ I_k = {i}`,
//! 3. `∩_A I = {i}`.
//!
//! The search is complete without trying all subsets:
//!
//! - Form 3: members of A contain i, and more members only shrink the intersection, so A = all rows with i is the best A.
//! - Form 1: the members of `A\k` lack i, and more of them only shrink `I_k \ ∪` and grow the union, so `A\k` = all rows without i (other than k) is the best for each k.
//! - Form 2: k lacks i, the members of `A\k` contain i, and more of them only shrink the intersection and grow the union, so `A\k` = all rows with i is the best for each k.
//!   (`A\k` empty cannot serve: then the union is `I_k`, which lacks i.)
//!
//! The witness found so is then thinned: members are dropped while the form still holds.
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, assumption 2; form 3 is the structural sparsity of Zheng, Ng & Zhang 2022, arXiv 2206.07751.

use super::{Latents, Support};

/// Which of the three forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Alone in one set: `I_k \ ∪_{A\k} I = {i}`.
    OnlyInOne,
    /// Missing from one set: `(∩_{A\k} I) \ I_k = {i}`.
    MissingFromOne,
    /// Alone in the intersection: `∩_A I = {i}`.
    Intersection,
}

impl Form {
    /// As numbered in the paper.
    pub fn number(self) -> u8 {
        match self {
            Self::OnlyInOne => 1,
            Self::MissingFromOne => 2,
            Self::Intersection => 3,
        }
    }
}

/// A set A, and its k where the form has one, by which a latent meets the assumption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Which form.
    pub form: Form,
    /// A, in order.
    pub rows: Vec<usize>,
    /// k.
    pub k: Option<usize>,
}

/// For each latent every form that it meets, with one witness a form; no entry means that the assumption fails for it.
pub fn diversity(support: &Support) -> Vec<Vec<Witness>> {
    let sets: Vec<(usize, Latents)> = support.distinct_rows().into_iter().map(|i| (i, support.row_set(i))).collect();
    let all: Latents = (0..support.latents()).collect();
    (0..support.latents())
        .map(|i| {
            let (with, without): (Vec<_>, Vec<_>) = sets.iter().partition(|(_, set)| set.contains(&i));
            let target = Latents::from([i]);
            let covers = |k: &Latents, rest: &[&(usize, Latents)]| rest.iter().fold(k.clone(), |union, (_, set)| &union | set) == all;
            let alone = |k: &Latents, rest: &[&(usize, Latents)]| rest.iter().fold(k.clone(), |left, (_, set)| &left - set) == target;
            let shared = |rest: &[&(usize, Latents)]| rest.iter().fold(all.clone(), |shared, (_, set)| &shared & set);
            let mut witnesses = Vec::new();
            let only_in_one = |k: &Latents, rest: &[&(usize, Latents)]| covers(k, rest) && alone(k, rest);
            if let Some((k, set)) = with.iter().find(|(_, set)| only_in_one(set, &without)) {
                let rest = thin(&without, |rest| only_in_one(set, rest));
                witnesses.push(Witness { form: Form::OnlyInOne, rows: members(&rest, Some(*k)), k: Some(*k) });
            }
            let missing_from_one =
                |k: &Latents, rest: &[&(usize, Latents)]| !rest.is_empty() && covers(k, rest) && &shared(rest) - k == target;
            if let Some((k, set)) = without.iter().find(|(_, set)| missing_from_one(set, &with)) {
                let rest = thin(&with, |rest| missing_from_one(set, rest));
                witnesses.push(Witness { form: Form::MissingFromOne, rows: members(&rest, Some(*k)), k: Some(*k) });
            }
            let intersection = |rest: &[&(usize, Latents)]| !rest.is_empty() && shared(rest) == target;
            if intersection(&with) {
                let rest = thin(&with, intersection);
                witnesses.push(Witness { form: Form::Intersection, rows: members(&rest, None), k: None });
            }
            witnesses
        })
        .collect()
}

/// Drops members one by one while `holds`.
fn thin<'a>(rows: &[&'a (usize, Latents)], holds: impl Fn(&[&'a (usize, Latents)]) -> bool) -> Vec<&'a (usize, Latents)> {
    let mut kept = rows.to_vec();
    let mut at = 0;
    while at < kept.len() {
        let dropped = kept.remove(at);
        if !holds(&kept) {
            kept.insert(at, dropped);
            at += 1;
        }
    }
    kept
}

fn members(rest: &[&(usize, Latents)], k: Option<usize>) -> Vec<usize> {
    let mut rows: Vec<usize> = rest.iter().map(|(i, _)| *i).chain(k).collect();
    rows.sort_unstable();
    rows
}

#[cfg(test)]
mod tests {
    use super::super::support;
    use super::*;
    use proptest::prelude::*;

    /// All subsets A and all k, straight from the definition.
    fn by_definition(s: &Support, i: usize) -> Vec<Form> {
        let all: Latents = (0..s.latents()).collect();
        let target = Latents::from([i]);
        let mut forms = std::collections::BTreeSet::new();
        for mask in 1_u32..1 << s.rows() {
            let a: Vec<usize> = (0..s.rows()).filter(|r| mask >> r & 1 == 1).collect();
            let meet = |rows: &[usize]| rows.iter().fold(all.clone(), |m, &r| &m & &s.row_set(r));
            if meet(&a) == target {
                forms.insert(Form::Intersection);
            }
            if s.index_set(&a) != all {
                continue;
            }
            for &k in &a {
                let rest: Vec<usize> = a.iter().copied().filter(|&r| r != k).collect();
                if &s.row_set(k) - &s.index_set(&rest) == target {
                    forms.insert(Form::OnlyInOne);
                }
                if &meet(&rest) - &s.row_set(k) == target {
                    forms.insert(Form::MissingFromOne);
                }
            }
        }
        forms.into_iter().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn agrees_with_the_definition(rows in proptest::collection::vec(proptest::collection::vec(0_u8..2, 4), 1..7)) {
            let Ok(s) = Support::try_from(rows) else { return Ok(()) };
            let found = diversity(&s);
            for (i, witnesses) in found.iter().enumerate() {
                let forms: Vec<Form> = witnesses.iter().map(|w| w.form).collect();
                prop_assert_eq!(&forms, &by_definition(&s, i), "latent {} of\n{}", i, s);
            }
        }
    }

    /// Rows that each miss one latent: nearly dense, yet every latent has form 2.
    #[test]
    fn nearly_dense_structures_meet_form_two() {
        let s = support(&[&[0, 1, 1], &[1, 0, 1], &[1, 1, 0]]);
        for (i, witnesses) in diversity(&s).into_iter().enumerate() {
            assert!(witnesses.iter().any(|w| w.form == Form::MissingFromOne && w.k == Some(i)));
        }
        assert!(diversity(&support(&[&[1, 1], &[1, 1]])).iter().all(Vec::is_empty));
    }
}
