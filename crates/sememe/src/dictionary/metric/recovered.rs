//! How much of a language model's prediction survives when activations are replaced by their reconstruction.
//!
//! With cross-entropies (nats a token) of the model as it is, with the
//! dictionary in place, and with the activations ablated (set to 0, or to
//! their mean): `(CE_ablated − CE_dictionary) / (CE_ablated − CE_clean)`. With
//! divergences `KL(clean ‖ ·)` of the predicted tokens, whose clean value is 0:
//! `1 − KL_dictionary/KL_ablated`. 1 is no loss, 0 as bad as ablation.
//!
//! # Source
//! Karvonen et al. 2025, *SAEBench*, arXiv 2503.09532, §4.

/// Share of the cross-entropy recovered; NaN when ablation costs nothing.
pub fn cross_entropy_recovered(clean: f64, dictionary: f64, ablated: f64) -> f64 {
    if ablated == clean { f64::NAN } else { (ablated - dictionary) / (ablated - clean) }
}

/// Share of the divergence recovered; NaN when ablation costs nothing.
pub fn divergence_recovered(dictionary: f64, ablated: f64) -> f64 {
    if ablated == 0.0 { f64::NAN } else { 1.0 - dictionary / ablated }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovered_by_hand() {
        assert!((cross_entropy_recovered(3.0, 3.5, 8.0) - 0.9).abs() < 1e-12);
        assert!((cross_entropy_recovered(3.0, 9.0, 8.0) + 0.2).abs() < 1e-12);
        assert!((divergence_recovered(0.1, 2.0) - 0.95).abs() < 1e-12);
        assert!(cross_entropy_recovered(3.0, 3.0, 3.0).is_nan());
    }
}
