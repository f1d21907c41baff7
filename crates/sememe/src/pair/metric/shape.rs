//! What the functions between single latents look like: linear, linear above a threshold, or neither.
//!
//! At a token with active latents a and b, `z_a` is swept from 0 to twice its
//! value and the map `encode_y ∘ layer ∘ decode_x` is evaluated, choice of
//! active latents included. With [`POINTS`] values `v_i` and range `R = max v −
//! min v`, a curve is
//!
//! - *linear* when a straight line misses no point by more than [`TOLERANCE`] `R`;
//! - *JumpReLU-like* when the points at which b is inactive (0) are a run at one end of the sweep, and a straight line misses
//!   none of the others by more than that;
//! - *other* else. A constant is linear.
//!
//! # Source
//! Farnik et al. 2025, arXiv 2502.18147, §5.4 (there by eye and by regression on sampled functions).

use burn::tensor::{Int, Tensor, TensorData};
use rand::Rng;
use sememe_truth::random::Stream;
use serde::{Deserialize, Serialize};

use crate::pair::{Layer, Pair};
use sememe_kernels::Pattern;

/// Points of a sweep.
pub const POINTS: usize = 21;
/// The largest miss that counts as none, as a share of the curve's range.
pub const TOLERANCE: f64 = 0.02;

/// What a curve looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A straight line.
    Linear,
    /// 0 on one side of a threshold, a straight line on the other.
    JumpRelu,
    /// Neither.
    Other,
}

/// Shares of each shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShapeCounts {
    /// Curves that were looked at.
    pub curves: usize,
    /// Share that is linear.
    pub linear_fraction: f64,
    /// Share that is JumpReLU-like.
    pub jumprelu_fraction: f64,
    /// Share that is neither.
    pub other_fraction: f64,
}

/// The largest distance of `points` (position, value) from their best straight line.
fn largest_miss(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |f: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / count;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    let (xx, xy) = (mean(&|p| (p.0 - x).powi(2)), mean(&|p| (p.0 - x) * (p.1 - y)));
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    points.iter().map(|p| (p.1 - y - slope * (p.0 - x)).abs()).fold(0.0, f64::max)
}

/// The shape of a curve with values at equal distances.
pub fn shape_of(values: &[f64]) -> Shape {
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &v| (low.min(v), high.max(v)));
    let allowed = TOLERANCE * (high - low);
    let all: Vec<(f64, f64)> = values.iter().enumerate().map(|(i, &v)| (i as f64, v)).collect();
    if largest_miss(&all) <= allowed {
        return Shape::Linear;
    }
    let active: Vec<(f64, f64)> = all.iter().copied().filter(|p| p.1 != 0.0).collect();
    let (Some(first), Some(last)) = (active.first(), active.last()) else { return Shape::Linear };
    let is_run = (last.0 - first.0) as usize + 1 == active.len();
    let at_an_end = first.0 == 0.0 || last.0 as usize + 1 == values.len();
    if active.len() < all.len() && is_run && at_an_end && largest_miss(&active) <= allowed { Shape::JumpRelu } else { Shape::Other }
}

/// Sweeps `curves` random pairs of active latents; `z` are the values at the entries of `x`, `reconstructed [N, d]` is x̂.
pub fn shapes(
    layer: &Layer,
    pair: &Pair,
    (x, y): (&Pattern, &Pattern),
    z: &[f32],
    reconstructed: &Tensor<2>,
    curves: usize,
    stream: &mut Stream,
) -> ShapeCounts {
    let usable: Vec<usize> = (0..x.rows()).filter(|&row| !x.row(row).is_empty() && !y.row(row).is_empty()).collect();
    let mut counts = [0_usize; 3];
    let device = reconstructed.device();
    let drawn = if usable.is_empty() { 0 } else { curves };
    let picks: Vec<(usize, usize, u32)> = (0..drawn)
        .map(|_| {
            let token = usable[stream.random_range(0..usable.len())];
            (token, stream.random_range(x.range(token)), y.row(token)[stream.random_range(0..y.row(token).len())])
        })
        .collect();
    for picks in picks.chunks(64) {
        let index = |at: Vec<i32>| {
            let count = at.len();
            Tensor::<1, Int>::from_data(TensorData::new(at, [count]), &device)
        };
        let repeated = |f: &dyn Fn(&(usize, usize, u32)) -> i32| index(picks.iter().flat_map(|pick| [f(pick); POINTS]).collect());
        let here = reconstructed.clone().select(0, repeated(&|pick| pick.0 as i32));
        let directions = pair.input.w_dec.val().select(0, repeated(&|pick| x.latents()[pick.1] as i32));
        let shifts: Vec<f32> =
            picks.iter().flat_map(|pick| (0..POINTS).map(|i| z[pick.1] * (2.0 * i as f32 / (POINTS - 1) as f32 - 1.0))).collect();
        let shifts = Tensor::<1>::from_floats(shifts.as_slice(), &device).unsqueeze_dim::<2>(1);
        let (active, values) = pair.output.codes(layer.apply(here + directions * shifts)).active();
        for (curve, pick) in picks.iter().enumerate() {
            let value =
                |row: usize| active.row(row).binary_search(&pick.2).map_or(0.0, |at| f64::from(values[active.range(row).start + at]));
            let curve: Vec<f64> = (curve * POINTS..(curve + 1) * POINTS).map(value).collect();
            counts[shape_of(&curve) as usize] += 1;
        }
    }
    let share = |shape: Shape| counts[shape as usize] as f64 / drawn.max(1) as f64;
    ShapeCounts {
        curves: drawn,
        linear_fraction: share(Shape::Linear),
        jumprelu_fraction: share(Shape::JumpRelu),
        other_fraction: share(Shape::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(f: impl Fn(f64) -> f64) -> Shape {
        shape_of(&(0..POINTS).map(|i| f(i as f64 / 10.0)).collect::<Vec<_>>())
    }

    #[test]
    fn shapes_by_hand() {
        assert_eq!(curve(|z| 3.0 - 2.0 * z), Shape::Linear);
        assert_eq!(curve(|_| 1.0), Shape::Linear);
        assert_eq!(curve(|z| if z > 0.75 { 0.5 + z } else { 0.0 }), Shape::JumpRelu);
        assert_eq!(curve(|z| if z < 1.25 { 4.0 - z } else { 0.0 }), Shape::JumpRelu);
        assert_eq!(curve(|z| z * z), Shape::Other);
        // Active on both sides of a gap.
        assert_eq!(curve(|z| if (0.5..1.0).contains(&z) { 0.0 } else { 1.0 + z }), Shape::Other);
    }
}
