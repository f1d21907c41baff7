//! Named dependency structures, from fully diverse to fully shared.
//!
//! | name | what it is | sufficient diversity |
//! |---|---|---|
//! | `diverse` | random rows of one to three latents, no column equal to or within another | every latent |
//! | `dense` | every observed variable depends on every latent | no latent |
//! | `dense-diverse` | every row misses `missing` latents, each latent missing in some row | every latent, by form 2 |
//! | `sparse-not-diverse` | latents in pairs of equal columns over a diverse structure | no latent of a pair |
//! | `fully-shared` | private rows for half of the latents, while the other half is in every row | half of them |
//! | `set` | two groups of observed variables with latents of their own and latents in common | blocks only |
//! | `banded` | row i depends on latents i, i+1 (cyclic) | every latent, dz ≥ 3 |
//!
//! # Source
//! Zheng et al. 2026, arXiv 2604.17568, §5; `dense-diverse` and `sparse-not-diverse` separate density from diversity.

use rand::Rng;
use rand::seq::index;
use serde::{Deserialize, Serialize};

use super::WorldError;
use crate::random::Stream;
use crate::structure::{Support, Verdict, diversity, verdicts};

/// Which structure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Structure {
    /// Random sparse rows, every latent identifiable alone.
    #[default]
    Diverse,
    /// All ones.
    Dense,
    /// Nearly all ones, every latent identifiable alone.
    DenseDiverse,
    /// Pairs of equal columns.
    SparseNotDiverse,
    /// Half of the latents in every row.
    FullyShared,
    /// Two overlapping groups: rows of the first half depend on the first two thirds of the latents, the others on the last two thirds.
    Set,
    /// Neighbouring latents.
    Banded,
    /// The user's own rows of 0 and 1.
    Given(Vec<Vec<u8>>),
}

/// A structure and its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StructureConfig {
    /// Which structure.
    pub kind: Structure,
    /// dz; a given structure has its own.
    pub dz: usize,
    /// dx; 0 means 2·dz.
    pub dx: usize,
    /// Latents that each row of `dense-diverse` misses; 0 means three tenths of dz, rounded, at least 1.
    pub missing: usize,
}

impl Default for StructureConfig {
    fn default() -> Self {
        Self { kind: Structure::Diverse, dz: 5, dx: 0, missing: 0 }
    }
}

/// Draws of a random structure before the banded one is taken.
const DRAWS: usize = 2000;

impl StructureConfig {
    /// `(dx, dz)`.
    pub fn size(&self) -> (usize, usize) {
        match &self.kind {
            Structure::Given(rows) => (rows.len(), rows.first().map_or(0, Vec::len)),
            _ => (if self.dx == 0 { 2 * self.dz } else { self.dx }, self.dz),
        }
    }

    /// Refuses sizes for which the structure does not exist.
    pub fn check(&self) -> Result<(), WorldError> {
        let setting = |key, got: usize, expected: &str| Err(WorldError::Setting { key, got: got.to_string(), expected: expected.into() });
        if let Structure::Given(rows) = &self.kind {
            Support::try_from(rows.clone())?;
            return Ok(());
        }
        let (dx, dz) = self.size();
        let least = match self.kind {
            Structure::Dense => 1,
            Structure::SparseNotDiverse | Structure::FullyShared => 2,
            _ => 3,
        };
        if dz < least {
            return setting("dz", dz, &format!("this structure needs at least {least} latents"));
        }
        if dx < dz {
            return setting(
                "dx",
                dx,
                &format!("give at least as many observed variables as the {dz} latents, or the generator is not injective"),
            );
        }
        if self.missing > dz - 2 && self.kind == Structure::DenseDiverse {
            return setting("missing", self.missing, &format!("give at most dz − 2 = {}", dz - 2));
        }
        Ok(())
    }

    /// The structure; random ones from `stream`.
    pub fn build(&self, stream: &mut Stream) -> Result<Support, WorldError> {
        self.check()?;
        let (dx, dz) = self.size();
        let banded = |i: usize, j: usize| j == i % dz || j == (i + 1) % dz;
        Ok(match &self.kind {
            Structure::Given(rows) => Support::try_from(rows.clone())?,
            Structure::Dense => Support::from_fn(dx, dz, |_, _| true)?,
            Structure::Banded => Support::from_fn(dx, dz, banded)?,
            Structure::DenseDiverse => {
                let missing = if self.missing == 0 { ((3 * dz + 5) / 10).max(1) } else { self.missing };
                // Row i misses i, and others at a stride that differs from one round of rows to the next.
                Support::from_fn(dx, dz, |i, j| !(0..missing).any(|m| j == (i + m * (1 + i / dz)) % dz))?
            }
            Structure::FullyShared => {
                let private = dz / 2;
                Support::from_fn(dx, dz, |i, j| j >= private || j == i % private.max(1))?
            }
            Structure::Set => {
                let third = (dz / 3).max(1);
                Support::from_fn(dx, dz, |i, j| if i < dx / 2 { j < dz - third } else { j >= third })?
            }
            Structure::SparseNotDiverse => {
                let base_dz = dz.div_ceil(2);
                let base = if base_dz >= 3 {
                    diverse(dx, base_dz, stream)?
                } else {
                    Support::from_fn(dx, base_dz, |i, j| i % 3 == 2 || j == i % base_dz)?
                };
                Support::from_fn(dx, dz, |i, j| base.get(i, j / 2))?
            }
            Structure::Diverse => diverse(dx, dz, stream)?,
        })
    }
}

/// Random rows of one to three latents in which every latent is identifiable alone and meets sufficient diversity.
fn diverse(dx: usize, dz: usize, stream: &mut Stream) -> Result<Support, WorldError> {
    let most = if dz > 3 { 3 } else { 2 };
    for _ in 0..DRAWS {
        let rows: Vec<Vec<bool>> = (0..dx)
            .map(|_| {
                let count = stream.random_range(1..=most);
                let chosen = index::sample(stream, dz, count).into_vec();
                (0..dz).map(|j| chosen.contains(&j)).collect()
            })
            .collect();
        let support = Support::new(rows)?;
        let seen_twice = (0..dz).all(|j| support.column_set(j).len() >= 2);
        if seen_twice
            && verdicts(&support).iter().all(|verdict| *verdict == Verdict::Alone)
            && diversity(&support).iter().all(|forms| !forms.is_empty())
        {
            return Ok(support);
        }
    }
    Ok(Support::from_fn(dx, dz, |i, j| j == i % dz || j == (i + 1) % dz)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;
    use crate::structure::Form;

    fn build(kind: Structure, dz: usize, seed: u64) -> Support {
        match (StructureConfig { kind, dz, ..StructureConfig::default() }).build(&mut stream(seed, "structure")) {
            Ok(support) => support,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn structures_are_what_they_say() {
        for dz in 3..=12 {
            for seed in 0..8 {
                for kind in [Structure::Diverse, Structure::DenseDiverse, Structure::Banded] {
                    let s = build(kind.clone(), dz, seed);
                    assert!(diversity(&s).iter().all(|forms| !forms.is_empty()), "{kind:?} dz {dz} seed {seed}\n{s}");
                    assert!(verdicts(&s).iter().all(|v| *v == Verdict::Alone), "{kind:?} dz {dz} seed {seed}\n{s}");
                }
            }
            assert!(
                diversity(&build(Structure::DenseDiverse, dz, 0)).iter().all(|forms| forms.iter().any(|w| w.form == Form::MissingFromOne))
            );
            assert!(build(Structure::DenseDiverse, dz, 0).density() >= 0.6);
            assert!(diversity(&build(Structure::Dense, dz, 0)).iter().all(Vec::is_empty));
            let pairs = build(Structure::SparseNotDiverse, dz, 0);
            assert!(
                (0..dz / 2 * 2).all(|j| matches!(verdicts(&pairs)[j], Verdict::Block(_) | Verdict::Entangled { .. })),
                "dz {dz}\n{pairs}"
            );
            let set = build(Structure::Set, dz, 0);
            let (k, v) = (set.row_set(0), set.row_set(2 * dz - 1));
            assert!(!(&k & &v).is_empty() && !(&k - &v).is_empty() && !(&v - &k).is_empty(), "dz {dz}\n{set}");
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let refused = |config: StructureConfig| config.build(&mut stream(0, "structure")).is_err();
        assert!(refused(StructureConfig { dz: 0, ..StructureConfig::default() }));
        assert!(refused(StructureConfig { dz: 5, dx: 4, ..StructureConfig::default() }));
        assert!(refused(StructureConfig { kind: Structure::Given(vec![vec![1], vec![]]), ..StructureConfig::default() }));
    }
}
