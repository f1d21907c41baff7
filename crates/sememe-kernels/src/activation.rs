//! The element-wise activations φ in use, each with its slope φ′ and curvature φ″ in closed form.
//!
//! Forward mode needs φ′ (the tangent of `φ(u)` is `φ′(u)·u̇`); reverse mode
//! through a tangent needs φ″ as well. At the kink of a piecewise-linear φ the
//! slope is the one on the right, and the curvature is 0.
//!
//! # Source
//! GELU: Hendrycks & Gimpel 2016 (exact, by erf). SiLU: Elfwing et al. 2018. The others are classical.

use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

/// An element-wise activation φ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `u`.
    Identity,
    /// `max(u, 0)`.
    Relu,
    /// `u` above 0, `0.2 u` below.
    LeakyRelu,
    /// `u·s(u)`, s the logistic function.
    #[default]
    Silu,
    /// `u·Φ(u)`, Φ the normal distribution function.
    Gelu,
    /// `u·s(2√(2/π)(u + 0.044715 u³))`, s the logistic function: the approximation of GELU that GPT-2 and Gemma use.
    GeluTanh,
    /// `tanh u`.
    Tanh,
    /// `s(u) = 1/(1+e⁻ᵘ)`.
    Sigmoid,
    /// `ln(1+eᵘ)`.
    Softplus,
}

/// Slope of [`Activation::LeakyRelu`] below 0.
const LEAK: f32 = 0.2;
const INV_SQRT_2PI: f32 = 0.398_942_3;

/// `2√(2/π)` of [`Activation::GeluTanh`].
const TWO_SQRT_2_OVER_PI: f32 = 1.595_769;
/// Weight of the cube in [`Activation::GeluTanh`].
const CUBIC: f32 = 0.044_715;

/// `w(u) = 2√(2/π)(u + 0.044715 u³)` with its first and second derivative.
#[inline(always)]
fn gelu_tanh_argument(u: f32) -> [f32; 3] {
    let square = u * u;
    [
        TWO_SQRT_2_OVER_PI * u * (1.0 + CUBIC * square),
        TWO_SQRT_2_OVER_PI * (1.0 + 3.0 * CUBIC * square),
        6.0 * TWO_SQRT_2_OVER_PI * CUBIC * u,
    ]
}

/// `eˣ` without branches or calls, so that a loop over it vectorises: `2ⁿ · e^r`
/// with `n = round(x/ln 2)` and a polynomial of degree 6 in `|r| ≤ ln 2 / 2`.
/// Relative error below 3e-7; saturates outside ±87 instead of overflowing.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 · 2²³: adding it leaves the nearest integer in the low mantissa bits
    let x = x.clamp(-87.0, 87.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.0 + r * (1.0 + r * (0.5 + r * (0.166_666_67 + r * (0.041_666_668 + r * (0.008_333_334 + r * 0.001_388_889)))));
    // The low bits of `shifted` are n; moved to the exponent they multiply by 2ⁿ.
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

#[inline(always)]
fn logistic(u: f32) -> f32 {
    1.0 / (1.0 + exp(-u))
}

/// `tanh u = 2 s(2u) − 1`.
#[inline(always)]
pub(crate) fn tanh(u: f32) -> f32 {
    2.0 * logistic(2.0 * u) - 1.0
}

/// Φ(u) by Abramowitz & Stegun 7.1.26 (absolute error below 2e-7).
#[inline(always)]
fn normal_cdf(u: f32) -> f32 {
    let x = u * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let poly = t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_8 + t * (-1.453_152_1 + t * 1.061_405_4))));
    let upper = 0.5 * poly * exp(-x * x);
    if x >= 0.0 { 1.0 - upper } else { upper }
}

impl Activation {
    /// Every activation, for laws that must hold for all.
    pub const ALL: [Self; 9] =
        [Self::Identity, Self::Relu, Self::LeakyRelu, Self::Silu, Self::Gelu, Self::GeluTanh, Self::Tanh, Self::Sigmoid, Self::Softplus];

    /// φ(u) of one number.
    #[inline(always)]
    pub fn value(self, u: f32) -> f32 {
        match self {
            Self::Identity => u,
            Self::Relu => u.max(0.0),
            Self::LeakyRelu => {
                if u >= 0.0 {
                    u
                } else {
                    LEAK * u
                }
            }
            Self::Silu => u * logistic(u),
            Self::Gelu => u * normal_cdf(u),
            Self::GeluTanh => u * logistic(gelu_tanh_argument(u)[0]),
            Self::Tanh => tanh(u),
            Self::Sigmoid => logistic(u),
            Self::Softplus => u.max(0.0) + exp(-u.abs()).ln_1p(),
        }
    }

    /// φ′(u) of one number.
    #[inline(always)]
    pub fn slope(self, u: f32) -> f32 {
        match self {
            Self::Identity => 1.0,
            Self::Relu => {
                if u >= 0.0 {
                    1.0
                } else {
                    0.0
                }
            }
            Self::LeakyRelu => {
                if u >= 0.0 {
                    1.0
                } else {
                    LEAK
                }
            }
            Self::Silu => {
                let s = logistic(u);
                s * (1.0 + u * (1.0 - s))
            }
            Self::Gelu => normal_cdf(u) + u * INV_SQRT_2PI * exp(-0.5 * u * u),
            Self::GeluTanh => {
                let [w, w1, _] = gelu_tanh_argument(u);
                let s = logistic(w);
                s + u * s * (1.0 - s) * w1
            }
            Self::Tanh => {
                let y = tanh(u);
                1.0 - y * y
            }
            Self::Sigmoid => {
                let s = logistic(u);
                s * (1.0 - s)
            }
            Self::Softplus => logistic(u),
        }
    }

    /// φ″(u) of one number.
    #[inline(always)]
    pub fn curvature(self, u: f32) -> f32 {
        match self {
            Self::Identity | Self::Relu | Self::LeakyRelu => 0.0,
            Self::Silu => {
                let s = logistic(u);
                s * (1.0 - s) * (2.0 + u * (1.0 - 2.0 * s))
            }
            Self::Gelu => (2.0 - u * u) * INV_SQRT_2PI * exp(-0.5 * u * u),
            Self::GeluTanh => {
                let [w, w1, w2] = gelu_tanh_argument(u);
                let s = logistic(w);
                s * (1.0 - s) * (2.0 * w1 + u * ((1.0 - 2.0 * s) * w1 * w1 + w2))
            }
            Self::Tanh => {
                let y = tanh(u);
                -2.0 * y * (1.0 - y * y)
            }
            Self::Sigmoid => {
                let s = logistic(u);
                s * (1.0 - s) * (1.0 - 2.0 * s)
            }
            Self::Softplus => {
                let s = logistic(u);
                s * (1.0 - s)
            }
        }
    }

    /// Whether φ has a kink, so that second differences do not measure φ″.
    pub fn is_piecewise_linear(self) -> bool {
        matches!(self, Self::Identity | Self::Relu | Self::LeakyRelu)
    }

    /// φ of a tensor by ordinary operations (differentiable, any device).
    pub fn value_plain<const D: usize>(self, u: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Identity => u,
            Self::Relu => activation::relu(u),
            Self::LeakyRelu => activation::leaky_relu(u, f64::from(LEAK)),
            Self::Silu => activation::silu(u),
            Self::Gelu => activation::gelu(u),
            Self::GeluTanh => {
                let square = u.clone() * u.clone();
                u.clone() * activation::sigmoid(u * (square * (TWO_SQRT_2_OVER_PI * CUBIC) + TWO_SQRT_2_OVER_PI))
            }
            Self::Tanh => u.tanh(),
            Self::Sigmoid => activation::sigmoid(u),
            Self::Softplus => activation::softplus(u, 1.0),
        }
    }

    /// φ′ of a tensor by ordinary operations, themselves differentiable (any device).
    pub fn slope_plain<const D: usize>(self, u: Tensor<D>) -> Tensor<D> {
        let step = |low: f32| u.clone().detach().greater_equal_elem(0.0).float() * (1.0 - low) + low;
        match self {
            Self::Identity => u.ones_like(),
            Self::Relu => step(0.0),
            Self::LeakyRelu => step(LEAK),
            Self::Silu => {
                let s = activation::sigmoid(u.clone());
                s.clone() * (u * (s.neg() + 1.0) + 1.0)
            }
            Self::Gelu => {
                let cdf = ((u.clone() * std::f32::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
                let density = (u.clone() * u.clone() * -0.5).exp() * INV_SQRT_2PI;
                cdf + u * density
            }
            Self::GeluTanh => {
                let square = u.clone() * u.clone();
                let s = activation::sigmoid(u.clone() * (square.clone() * (TWO_SQRT_2_OVER_PI * CUBIC) + TWO_SQRT_2_OVER_PI));
                let w1 = square * (3.0 * TWO_SQRT_2_OVER_PI * CUBIC) + TWO_SQRT_2_OVER_PI;
                s.clone() + u * s.clone() * (s.neg() + 1.0) * w1
            }
            Self::Tanh => {
                let y = u.tanh();
                (y.clone() * y).neg() + 1.0
            }
            Self::Sigmoid => {
                let s = activation::sigmoid(u);
                s.clone() * (s.neg() + 1.0)
            }
            Self::Softplus => activation::sigmoid(u),
        }
    }
}

/// Runs `$body` with `$phi` bound to a constant, so that the choice of φ is made outside the loop.
macro_rules! for_constant {
    ($chosen:expr, $phi:ident => $body:expr) => {
        match $chosen {
            $crate::Activation::Identity => {
                const $phi: $crate::Activation = $crate::Activation::Identity;
                $body
            }
            $crate::Activation::Relu => {
                const $phi: $crate::Activation = $crate::Activation::Relu;
                $body
            }
            $crate::Activation::LeakyRelu => {
                const $phi: $crate::Activation = $crate::Activation::LeakyRelu;
                $body
            }
            $crate::Activation::Silu => {
                const $phi: $crate::Activation = $crate::Activation::Silu;
                $body
            }
            $crate::Activation::Gelu => {
                const $phi: $crate::Activation = $crate::Activation::Gelu;
                $body
            }
            $crate::Activation::GeluTanh => {
                const $phi: $crate::Activation = $crate::Activation::GeluTanh;
                $body
            }
            $crate::Activation::Tanh => {
                const $phi: $crate::Activation = $crate::Activation::Tanh;
                $body
            }
            $crate::Activation::Sigmoid => {
                const $phi: $crate::Activation = $crate::Activation::Sigmoid;
                $body
            }
            $crate::Activation::Softplus => {
                const $phi: $crate::Activation = $crate::Activation::Softplus;
                $body
            }
        }
    };
}
pub(crate) use for_constant;

#[cfg(test)]
mod tests {
    use super::*;

    /// φ′ and φ″ against central differences of φ and φ′, away from the kink.
    #[test]
    fn slope_and_curvature_are_the_derivatives() {
        for phi in Activation::ALL {
            for u in [-3.1_f32, -1.3, -0.4, 0.3, 0.9, 2.7] {
                let h = 1e-2_f32;
                let central = |f: &dyn Fn(f32) -> f32| (f(u + h) - f(u - h)) / (2.0 * h);
                let slope = central(&|x| phi.value(x));
                let curvature = central(&|x| phi.slope(x));
                assert!((slope - phi.slope(u)).abs() < 2e-4, "{phi:?} slope at {u}: {slope} against {}", phi.slope(u));
                assert!((curvature - phi.curvature(u)).abs() < 2e-4, "{phi:?} curvature at {u}");
            }
        }
    }

    #[test]
    fn exp_is_the_exponential() {
        for step in -8700..8700 {
            let x = step as f32 * 0.01;
            let expected = f64::from(x).exp();
            assert!((f64::from(exp(x)) - expected).abs() < 4e-7 * expected, "exp({x})");
        }
        assert!(exp(-1e30) < 1e-37 && exp(1e30).is_finite());
    }

    #[test]
    fn normal_cdf_has_its_known_values() {
        for (u, expected) in [(0.0, 0.5), (1.0, 0.841_344_7), (-2.0, 0.022_750_13), (3.0, 0.998_650_1)] {
            assert!((normal_cdf(u) - expected).abs() < 4e-7);
        }
    }
}
