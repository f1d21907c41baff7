//! Frequencies of the rotary positions: `ω_i = θ^{−2i/w}` for w turned components, and their stretching to longer texts.
//!
//! - linear: `ω/f`.
//! - Llama 3: with `λ = 2π/ω` the wavelength and L the length of pre-training, `ω` where `λ < L/high`, `ω/f` where
//!   `λ > L/low`, and between them `(1 − s) ω/f + s ω` with `s = (L/λ − low)/(high − low)`.
//!
//! # Source
//! Su et al. 2021, arXiv 2104.09864; Chen et al. 2023, arXiv 2306.15595 (linear); Grattafiori et al. 2024, arXiv 2407.21783,
//! as implemented by its published code (Llama 3).

use serde_json::Value;

use crate::{Config, LmError};

/// How frequencies are stretched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Divided by a factor.
    Linear(f64),
    /// Low frequencies divided, high ones kept.
    Llama3 {
        /// f.
        factor: f64,
        /// Wavelengths above L divided by this are stretched.
        low: f64,
        /// Wavelengths below L divided by this are kept.
        high: f64,
        /// L.
        length: f64,
    },
}

/// The rotation of queries and keys by position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// θ.
    pub theta: f64,
    /// Components of a head that are turned; an even number.
    pub turned: usize,
    /// Stretching.
    pub scaling: RopeScaling,
}

impl Rope {
    /// From `keys`: the config itself (`rope_theta`, `rope_scaling`), or `rope_parameters` in it.
    pub(crate) fn read(config: &Config, keys: &Value, head_width: usize) -> Result<Self, LmError> {
        let nested = keys.get("rope_parameters").filter(|nested| nested.get("rope_theta").is_some());
        if let Some(nested) = nested {
            return Self::read_scaled(config, nested, nested, head_width);
        }
        let scaling = keys.get("rope_scaling").unwrap_or(&Value::Null);
        Self::read_scaled(config, keys, scaling, head_width)
    }

    pub(crate) fn read_scaled(config: &Config, keys: &Value, scaling: &Value, head_width: usize) -> Result<Self, LmError> {
        let positive = |from: &Value, key: &str, default: Option<f64>| match from.get(key).filter(|value| !value.is_null()) {
            None => default.ok_or_else(|| config.wrong(key, "is missing; it must be a number above 0")),
            Some(value) => value
                .as_f64()
                .filter(|&number| number.is_finite() && number > 0.0)
                .ok_or_else(|| config.wrong(key, &format!("is {value}; it must be a number above 0"))),
        };
        let theta = match (keys.get("rope_theta"), keys.get("rotary_emb_base")) {
            (None, Some(_)) => positive(keys, "rotary_emb_base", None)?,
            _ => positive(keys, "rope_theta", Some(10_000.0))?,
        };
        let whole = config.number_or("rotary_pct", config.number_or("partial_rotary_factor", 1.0)?)?;
        let fraction = positive(keys, "partial_rotary_factor", Some(whole))?;
        let turned = (fraction.min(1.0) * head_width as f64) as usize / 2 * 2;
        let kind = scaling.get("rope_type").or_else(|| scaling.get("type")).and_then(Value::as_str).unwrap_or("default");
        let scaling = match kind {
            "default" | "mrope" => RopeScaling::None,
            "linear" => RopeScaling::Linear(positive(scaling, "factor", None)?),
            "llama3" => RopeScaling::Llama3 {
                factor: positive(scaling, "factor", None)?,
                low: positive(scaling, "low_freq_factor", None)?,
                high: positive(scaling, "high_freq_factor", None)?,
                length: positive(scaling, "original_max_position_embeddings", None)?,
            },
            other => {
                let problem = format!("is `{other}`; known are default, linear and llama3");
                return Err(config.wrong("rope_scaling.rope_type", &problem));
            }
        };
        Ok(Self { theta, turned, scaling })
    }

    /// ω for each pair.
    pub fn frequencies(&self) -> Vec<f64> {
        let plain = (0..self.turned / 2).map(|pair| self.theta.powf(-2.0 * pair as f64 / self.turned as f64));
        match self.scaling {
            RopeScaling::None => plain.collect(),
            RopeScaling::Linear(factor) => plain.map(|omega| omega / factor).collect(),
            RopeScaling::Llama3 { factor, low, high, length } => plain
                .map(|omega| {
                    let turns = length * omega / std::f64::consts::TAU;
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    (1.0 - kept) * omega / factor + kept * omega
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_by_hand() {
        let rope = Rope { theta: 100.0, turned: 4, scaling: RopeScaling::None };
        let close = |got: Vec<f64>, expected: [f64; 2]| got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close(rope.frequencies(), [1.0, 0.1]));
        assert!(close(Rope { scaling: RopeScaling::Linear(8.0), ..rope }.frequencies(), [0.125, 0.0125]));
        // L = 20π: ω = 1 turns 10 times (kept), ω = 0.1 once (stretched fully).
        let scaling = RopeScaling::Llama3 { factor: 4.0, low: 1.0, high: 4.0, length: 10.0 * std::f64::consts::TAU };
        assert!(close(Rope { scaling, ..rope }.frequencies(), [1.0, 0.025]));
    }
}
