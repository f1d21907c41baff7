//! What forming `A = D W_into` costs, and which rows of it are formed.
//!
//! With n latents of which U are active somewhere in the batch, E entries
//! (token and active latent), width d and h hidden units over all branches,
//! operations forward and backward are:
//!
//! - whole: `4 n d h`: all latents, no row is moved;
//! - active: `4 U d h + m · 2 U d`: rows of active latents are gathered before and their gradients scattered after, a moved
//!   number costing as much as [`MOVE`] operations;
//! - per token: `4 E d h`: each token forms its own rows. Since `U ≤ E` it is never cheaper than *active*, however few the
//!   tokens; it is listed so that the choice is over all three.
//!
//! The k×k products that follow (`6 h Σ_t k_x k_y` operations) are the same in all.

/// Operations that take as long as moving one number through memory.
pub const MOVE: f64 = 16.0;

/// The numbers that the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// n.
    pub latents: usize,
    /// U: latents active in some token.
    pub active: usize,
    /// E: entries of the pattern.
    pub entries: usize,
    /// d.
    pub width: usize,
    /// h over all branches.
    pub hidden: usize,
}

/// Which rows are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Those of all latents.
    Whole,
    /// Those of latents active in some token, once each.
    Active,
    /// Those of each token's latents, for each token anew.
    PerToken,
}

impl Route {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Whole, Self::Active, Self::PerToken];

    /// Operations (and moves, as operations) of this way.
    pub fn cost(self, shape: &Shape) -> f64 {
        let a_row = 4.0 * shape.width as f64 * shape.hidden as f64;
        match self {
            Self::Whole => shape.latents as f64 * a_row,
            Self::Active => shape.active as f64 * (a_row + MOVE * 2.0 * shape.width as f64),
            Self::PerToken => shape.entries as f64 * (a_row + MOVE * 2.0 * shape.width as f64),
        }
    }

    /// The cheapest way.
    pub fn choose(shape: &Shape) -> Self {
        let cheaper = |best: Self, other: Self| if other.cost(shape) < best.cost(shape) { other } else { best };
        Self::ALL.into_iter().fold(Self::Whole, cheaper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_by_hand() {
        let shape = |active, entries| Shape { latents: 8192, active, entries, width: 576, hidden: 3072 };
        assert_eq!(Route::choose(&shape(8192, 65_536)), Route::Whole);
        assert_eq!(Route::choose(&shape(8100, 65_536)), Route::Active);
        assert_eq!(Route::choose(&shape(1700, 2048)), Route::Active);
        // A row costs 4·576·3072 operations, and 32·576 for its moves.
        assert_eq!(Route::Active.cost(&shape(1, 1)), 4.0 * 576.0 * 3072.0 + 32.0 * 576.0);
        assert_eq!(Route::Whole.cost(&shape(1, 1)), 8192.0 * 4.0 * 576.0 * 3072.0);
    }

    /// Forming rows token by token never wins: a latent that two tokens use is formed twice.
    #[test]
    fn per_token_is_never_cheaper() {
        for active in [1, 10, 500, 4096] {
            for shared in [1, 2, 9] {
                let shape = Shape { latents: 4096, active, entries: active * shared, width: 64, hidden: 256 };
                assert!(Route::PerToken.cost(&shape) >= Route::Active.cost(&shape));
                assert_ne!(Route::choose(&shape), Route::PerToken);
            }
        }
    }
}
