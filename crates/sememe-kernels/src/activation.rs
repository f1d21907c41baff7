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

fn logistic(u: f32) -> f32 {
    1.0 / (1.0 + (-u).exp())
}

/// Φ(u) to single precision, by the rational approximation of erfc in Press et
/// al., *Numerical Recipes* §6.2 (relative error below 1.2e-7 everywhere).
fn normal_cdf(u: f32) -> f32 {
    let x = f64::from(u) * std::f64::consts::FRAC_1_SQRT_2;
    let z = x.abs();
    let t = 1.0 / (1.0 + 0.5 * z);
    const COEFFICIENTS: [f64; 10] = [
        -1.265_512_23, 1.000_023_68, 0.374_091_96, 0.096_784_18, -0.186_288_06, 0.278_868_07, -1.135_203_98, 1.488_515_87, -0.822_152_23, 0.170_872_77,
    ];
    let poly = COEFFICIENTS.iter().rev().fold(0.0, |acc, c| acc * t + c);
    let erfc = t * (-z * z + poly).exp();
    (if x >= 0.0 { 1.0 - 0.5 * erfc } else { 0.5 * erfc }) as f32
}

impl Activation {
    /// Every activation, for laws that must hold for all.
    pub const ALL: [Self; 8] =
        [Self::Identity, Self::Relu, Self::LeakyRelu, Self::Silu, Self::Gelu, Self::Tanh, Self::Sigmoid, Self::Softplus];

    /// φ(u) of one number.
    pub fn value(self, u: f32) -> f32 {
        match self {
            Self::Identity => u,
            Self::Relu => u.max(0.0),
            Self::LeakyRelu => if u >= 0.0 { u } else { LEAK * u },
            Self::Silu => u * logistic(u),
            Self::Gelu => u * normal_cdf(u),
            Self::Tanh => u.tanh(),
            Self::Sigmoid => logistic(u),
            Self::Softplus => u.max(0.0) + (-u.abs()).exp().ln_1p(),
        }
    }

    /// φ′(u) of one number.
    pub fn slope(self, u: f32) -> f32 {
        match self {
            Self::Identity => 1.0,
            Self::Relu => if u >= 0.0 { 1.0 } else { 0.0 },
            Self::LeakyRelu => if u >= 0.0 { 1.0 } else { LEAK },
            Self::Silu => { let s = logistic(u); s * (1.0 + u * (1.0 - s)) }
            Self::Gelu => normal_cdf(u) + u * INV_SQRT_2PI * (-0.5 * u * u).exp(),
            Self::Tanh => 1.0 - u.tanh().powi(2),
            Self::Sigmoid => { let s = logistic(u); s * (1.0 - s) }
            Self::Softplus => logistic(u),
        }
    }

    /// φ″(u) of one number.
    pub fn curvature(self, u: f32) -> f32 {
        match self {
            Self::Identity | Self::Relu | Self::LeakyRelu => 0.0,
            Self::Silu => { let s = logistic(u); s * (1.0 - s) * (2.0 + u * (1.0 - 2.0 * s)) }
            Self::Gelu => (2.0 - u * u) * INV_SQRT_2PI * (-0.5 * u * u).exp(),
            Self::Tanh => { let y = u.tanh(); -2.0 * y * (1.0 - y * y) }
            Self::Sigmoid => { let s = logistic(u); s * (1.0 - s) * (1.0 - 2.0 * s) }
            Self::Softplus => { let s = logistic(u); s * (1.0 - s) }
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
    fn normal_cdf_has_its_known_values() {
        for (u, expected) in [(0.0, 0.5), (1.0, 0.841_344_7), (-2.0, 0.022_750_13), (3.0, 0.998_650_1)] {
            assert!((normal_cdf(u) - expected).abs() < 2e-7);
        }
    }
}
