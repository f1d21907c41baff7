//! The n-gram model: modified Kneser–Ney smoothing, interpolated over all orders.
//!
//! For the n−1 tokens h before w, and h′ without its first token,
//!
//! `p_n(w|h) = max(c(hw) − D(c(hw)), 0)/c(h·) + γ(h) p_{n−1}(w|h′)`,
//! `γ(h) = (D₁ N₁(h·) + D₂ N₂(h·) + D₃ N₃₊(h·)) / c(h·)`,
//!
//! where `c(h·) = Σ_w c(hw)` and `N_i(h·)` counts the w with `c(hw) = i`. At
//! the highest order c counts occurrences; below, it counts the different
//! tokens that came before. Below order 1 stands `1/V`. After an h that never
//! came, `p_n = p_{n−1}`. With `n_i` the n-grams of an order that have count i,
//! `Y = n₁/(n₁ + 2 n₂)` and `D_i = i − (i+1) Y n_{i+1}/n_i`; where an `n_i` is 0
//! (tiny texts), every D is 3/4.
//!
//! # Source
//! Kneser & Ney 1995; Chen & Goodman 1998, *An empirical study of smoothing techniques for language modeling*, §3.

use std::collections::HashMap;

use super::Baseline;

/// Bits of a token in a key, so that five of them fit.
const BITS: u32 = 24;
/// The highest order.
const MOST: usize = 5;

/// What is known of the continuations of one history.
#[derive(Clone, Copy, Default)]
struct Continuations {
    /// `c(h·)`.
    total: u64,
    /// `N₁`, `N₂`, `N₃₊`.
    numbers: [u32; 3],
}

/// One order.
struct Order {
    counts: HashMap<u128, u32>,
    continuations: HashMap<u128, Continuations>,
    /// `D₁`, `D₂`, `D₃`.
    discounts: [f64; 3],
}

/// Counts of n-grams; takes about 150 bytes a token of the text.
pub struct KneserNey {
    /// From order 1.
    orders: Vec<Order>,
    vocabulary: usize,
}

/// The last tokens of `tokens` in one number; what precedes them is masked by the caller.
fn key(tokens: &[u32]) -> u128 {
    tokens.iter().fold(0, |key, &token| key << BITS | u128::from(token))
}

impl KneserNey {
    /// Counts n-grams of up to `order` tokens of the stream, which are below `vocabulary`.
    ///
    /// # Panics
    /// When the order is not from 1 to 5, or the vocabulary above 2²⁴.
    pub fn new(tokens: &[u32], order: usize, vocabulary: usize) -> Self {
        assert!((1..=MOST).contains(&order) && vocabulary <= 1 << BITS, "n-grams of at most {MOST} tokens below 2^{BITS}");
        let mut counts: HashMap<u128, u32> = HashMap::new();
        for gram in tokens.windows(order) {
            *counts.entry(key(gram)).or_insert(0) += 1;
        }
        let mut orders = Vec::new();
        for length in (1..=order).rev() {
            let mut below: HashMap<u128, u32> = HashMap::new();
            if length > 1 {
                let mask = (1 << (BITS as usize * (length - 1))) - 1;
                for gram in counts.keys() {
                    *below.entry(gram & mask).or_insert(0) += 1;
                }
            }
            orders.push(Order::new(std::mem::replace(&mut counts, below)));
        }
        orders.reverse();
        Self { orders, vocabulary }
    }
}

impl Order {
    fn new(counts: HashMap<u128, u32>) -> Self {
        let mut continuations: HashMap<u128, Continuations> = HashMap::new();
        let mut n = [0_u64; 4];
        for (gram, &count) in &counts {
            let history = continuations.entry(gram >> BITS).or_default();
            history.total += u64::from(count);
            history.numbers[(count as usize).min(3) - 1] += 1;
            if let Some(n) = n.get_mut(count as usize - 1) {
                *n += 1;
            }
        }
        let discounts = if n.contains(&0) {
            [0.75; 3]
        } else {
            let n = n.map(|n| n as f64);
            let y = n[0] / (n[0] + 2.0 * n[1]);
            [1.0, 2.0, 3.0].map(|i| (i - (i + 1.0) * y * n[i as usize] / n[i as usize - 1]).clamp(1e-3, i))
        };
        Self { counts, continuations, discounts }
    }
}

impl Baseline for KneserNey {
    fn name(&self) -> String {
        format!("{}-gram, Kneser–Ney", self.orders.len())
    }

    fn probability(&self, history: &[u32], next: u32) -> f64 {
        let mut p = 1.0 / self.vocabulary as f64;
        for (length, order) in self.orders.iter().enumerate() {
            let Some(start) = history.len().checked_sub(length) else { break };
            let before = key(&history[start..]);
            let Some(known) = order.continuations.get(&before) else { break };
            let count = order.counts.get(&(before << BITS | u128::from(next))).copied().unwrap_or(0);
            let [d1, d2, d3] = order.discounts;
            let discounted = if count == 0 { 0.0 } else { f64::from(count) - order.discounts[(count as usize).min(3) - 1] };
            let [n1, n2, n3] = known.numbers.map(f64::from);
            p = (discounted + (d1 * n1 + d2 * n2 + d3 * n3) * p) / known.total as f64;
        }
        p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bigrams of 0 1 0 1 0 2: (0,1) and (1,0) twice, (0,2) once; every token follows one other, so p₁ = 1/3.
    /// After 0, three continuations of two kinds: γ = 3/4 · 2/3 = 1/2.
    #[test]
    fn probabilities_by_hand() {
        let model = KneserNey::new(&[0, 1, 0, 1, 0, 2], 2, 3);
        for (history, next, expected) in [
            (&[][..], 2, 1.0 / 3.0),
            (&[0], 1, (2.0 - 0.75) / 3.0 + 0.5 / 3.0),
            (&[0], 2, (1.0 - 0.75) / 3.0 + 0.5 / 3.0),
            (&[0], 0, 0.5 / 3.0),
            (&[2], 0, 1.0 / 3.0),
        ] {
            let got = model.probability(history, next);
            assert!((got - expected).abs() < 1e-12, "p({next} | {history:?}) = {got}, expected {expected}");
        }
    }

    /// n₁ = 4, n₂ = 2, n₃ = 1, n₄ = 1 give Y = 1/2 and D = (1/2, 5/4, 1).
    #[test]
    fn discounts_by_hand() {
        let counts = [1, 1, 1, 1, 2, 2, 3, 4].iter().enumerate().map(|(at, &count)| (at as u128, count)).collect();
        assert_eq!(Order::new(counts).discounts, [0.5, 1.25, 1.0]);
    }

    /// A text that repeats is nearly certain to a model that sees enough of it.
    #[test]
    fn order_is_worth_something() {
        let tokens: Vec<u32> = (0..4000_u32).map(|i| [0, 1, 0, 2, 0, 1, 3][i as usize % 7]).collect();
        let nats = |order| -KneserNey::new(&tokens, order, 4).probability(&[3, 0, 1, 0], 2).ln();
        assert!(nats(4) < 0.01 && nats(2) > 0.5, "{} {}", nats(4), nats(2));
    }
}
