//! Every penalty against its closed form on a linear and a quadratic map, and against laws that hold for all.

use burn::tensor::{Device, Tensor, TensorData};
use sememe_truth::random::stream;

use super::*;
use crate::jacobian::{ColumnChoice, Dual, Tangents};

/// `g(z) = z A`, so that `J = Aᵀ` everywhere; A is `[dz, dx]`.
struct LinearMap(Tensor<2>);

impl Tangents<2> for LinearMap {
    fn apply(&self, z: Tensor<2>) -> Tensor<2> {
        z.matmul(self.0.clone())
    }

    fn push(&self, z: Dual<2>) -> Dual<2> {
        Dual { value: self.apply(z.value), tangents: z.tangents.matmul(self.0.clone()) }
    }
}

/// `g(z) = z₀^p z₁` of two latents: `J = (p z₀^{p−1} z₁, z₀^p)`.
struct Product(i32);

impl Tangents<2> for Product {
    fn apply(&self, z: Tensor<2>) -> Tensor<2> {
        z.clone().narrow(1, 0, 1).powi_scalar(self.0) * z.narrow(1, 1, 1)
    }

    fn push(&self, z: Dual<2>) -> Dual<2> {
        let k = z.directions();
        let (a, b) = (z.value.clone().narrow(1, 0, 1), z.value.clone().narrow(1, 1, 1));
        let by_a = (a.clone().powi_scalar(self.0 - 1) * b * f64::from(self.0)).repeat_dim(0, k);
        let by_b = a.powi_scalar(self.0).repeat_dim(0, k);
        Dual { tangents: by_a * z.tangents.clone().narrow(1, 0, 1) + by_b * z.tangents.narrow(1, 1, 1), value: self.apply(z.value) }
    }
}

fn kind(config: serde_json::Value) -> PenaltyKind {
    serde_json::from_value(config).expect("a valid penalty")
}

fn rows(samples: usize, row: &[f32]) -> Tensor<2> {
    let values = row.iter().copied().cycle().take(samples * row.len()).collect::<Vec<f32>>();
    Tensor::from_data(TensorData::new(values, [samples, row.len()]), &Device::flex())
}

fn value(kind: &PenaltyKind, generator: &dyn Tangents<2, 2>, latents: Tensor<2>, choice: ColumnChoice) -> f64 {
    let at = Point::new(generator, latents, None, choice, stream(7, "penalty"));
    f64::from(kind.member().value(&at).into_scalar::<f32>())
}

/// `J = [[3, −4], [0, 0.5], [1, 0]]`: the values below are sums by hand over its entries.
#[test]
fn closed_forms_on_a_linear_map() {
    let j_transposed = Tensor::from_floats([[3.0, 0.0, 1.0], [-4.0, 0.5, 0.0]], &Device::flex());
    let map = LinearMap(j_transposed);
    let (ln, tanh) = (|t: f64| (1.0 + t / 0.1).ln(), |t: f64| (t / 0.1).tanh());
    let lp = |t: f64| (t + 1e-3).sqrt() - 1e-3_f64.sqrt();
    let entries = [3.0, 1.0, 4.0, 0.5];
    let sum = |f: &dyn Fn(f64) -> f64| entries.iter().map(|&t| f(t)).sum::<f64>();
    let column_dot = 3.0 * -4.0;
    let cases = [
        (serde_json::json!({"name": "dependency-l1"}), 8.5),
        (serde_json::json!({"name": "dependency-l1-difference"}), 8.5),
        (serde_json::json!({"name": "frobenius"}), 26.25),
        (serde_json::json!({"name": "frobenius-projected", "directions": 8}), 26.25),
        (serde_json::json!({"name": "group-latent"}), 10.0_f64.sqrt() + 16.25_f64.sqrt()),
        (serde_json::json!({"name": "group-observed"}), 5.0 + 0.5 + 1.0),
        (serde_json::json!({"name": "group-user", "groups": [[0, 1], [2]]}), 3.0 + 16.25_f64.sqrt() + 1.0),
        (serde_json::json!({"name": "mcp"}), 1.0 + 0.75 + 1.0 + 0.4375),
        (serde_json::json!({"name": "scad"}), (2.0 * 3.7 * 3.0 - 9.0 - 1.0) / 5.4 + 1.0 + 2.35 + 0.5),
        (serde_json::json!({"name": "log"}), sum(&ln)),
        (serde_json::json!({"name": "log-mean"}), 0.05 * sum(&|t: f64| (1.0 + t / 0.05).ln())),
        (serde_json::json!({"name": "tanh"}), sum(&tanh)),
        (serde_json::json!({"name": "capped-l1"}), 2.0),
        (serde_json::json!({"name": "lp"}), sum(&lp)),
        (serde_json::json!({"name": "hessian"}), 0.0),
        (serde_json::json!({"name": "orojar"}), 4.0 * column_dot * column_dot),
        (serde_json::json!({"name": "compositional-contrast"}), 12.0),
        (serde_json::json!({"name": "latent-l1"}), 0.75),
    ];
    assert_eq!(cases.len(), PenaltyKind::ENTRIES.len(), "a penalty has no closed form here");
    for (config, expected) in cases {
        let got = value(&kind(config.clone()), &map, rows(4096, &[0.25, -0.5]), ColumnChoice::All);
        let tolerance = if ["orojar", "frobenius-projected"].contains(&config["name"].as_str().unwrap_or("")) { 0.06 } else { 2e-3 };
        assert!((got - expected).abs() <= tolerance * expected.abs().max(1.0), "{config}: {got}, by hand {expected}");
    }
}

/// `Var_v(vᵀHv) = 2 Σ_{i≠j} H_ij²`: 4 for z₀z₁, and `16 z₀²` for z₀²z₁.
#[test]
fn hessian_penalty_on_quadratic_and_cubic_maps() {
    let hessian = kind(serde_json::json!({"name": "hessian"}));
    for (power, expected) in [(1, 4.0), (2, 16.0 * 0.49)] {
        let got = value(&hessian, &Product(power), rows(16384, &[0.7, -0.3]), ColumnChoice::All);
        assert!((got - expected).abs() < 0.05 * expected, "z₀^{power} z₁: {got}, by hand {expected}");
    }
}

/// On `z₀z₁` at (0.7, −0.3) the Jacobian is (−0.3, 0.7).
#[test]
fn closed_forms_on_a_quadratic_map() {
    for (name, expected) in [
        ("dependency-l1", 1.0),
        ("frobenius", 0.58),
        ("group-observed", 0.58_f64.sqrt()),
        ("compositional-contrast", 0.21),
        ("orojar", 4.0 * 0.21 * 0.21),
    ] {
        let got = value(&kind(serde_json::json!({"name": name})), &Product(1), rows(8192, &[0.7, -0.3]), ColumnChoice::All);
        assert!((got - expected).abs() < 0.05 * expected, "{name}: {got}, by hand {expected}");
    }
}

/// Scaling latent 0 up by 10 and its column down by 10 leaves the pinned value as it is, and the unpinned one not.
#[test]
fn pins_undo_a_change_of_scale() {
    let device = Device::flex();
    let a = Tensor::from_floats([[3.0, 0.0, 1.0], [-4.0, 0.5, 0.0]], &device);
    let z = Tensor::<2>::from_floats([[1.0, 0.4], [-1.0, 0.3], [0.5, -0.9], [-0.3, 0.1]], &device);
    let scale = Tensor::<2>::from_floats([[10.0, 1.0]], &device);
    let (plain, scaled) = (LinearMap(a.clone()), LinearMap(a / scale.clone().transpose()));
    for kind in PenaltyKind::defaults().iter().filter(|kind| kind.member().needs() != Needs::Latents) {
        let pinned = |map: &LinearMap, z: Tensor<2>| {
            let at = Point::new(map, z.clone(), Some(std_of_latents(&z)), ColumnChoice::All, stream(3, "pins"));
            kind.member().value(&at).into_scalar::<f32>()
        };
        let (before, after) = (pinned(&plain, z.clone()), pinned(&scaled, z.clone() * scale.clone()));
        assert!((before - after).abs() < 2e-2 * before.abs().max(0.1), "{}: {before} became {after}", kind.tag());
    }
}

/// A random subset of columns estimates the whole sum: the mean over draws approaches it.
#[test]
fn random_columns_are_unbiased() {
    let map = LinearMap(Tensor::from_floats([[3.0, 0.0, 1.0], [-4.0, 0.5, 0.0], [1.0, 1.0, 1.0]], &Device::flex()));
    let kind = PenaltyKind::defaults().swap_remove(0);
    let draws = 400;
    let mean = (0..draws)
        .map(|draw| {
            let at = Point::new(&map, rows(2, &[0.1, 0.2, 0.3]), None, ColumnChoice::Random(1), stream(draw, "columns"));
            f64::from(kind.member().value(&at).into_scalar::<f32>())
        })
        .sum::<f64>()
        / draws as f64;
    assert!((mean - 11.5).abs() < 0.5, "mean {mean}, whole sum 11.5");
}

/// The most active and the above-threshold columns are those of the largest |z|.
#[test]
fn active_columns_are_those_of_large_latents() {
    let map = LinearMap(Tensor::from_floats([[3.0, 0.0, 1.0], [-4.0, 0.5, 0.0], [1.0, 1.0, 1.0]], &Device::flex()));
    let kind = PenaltyKind::defaults().swap_remove(0);
    let latents = Tensor::<2>::from_floats([[0.1, -2.0, 0.3], [5.0, 0.0, 0.2]], &Device::flex());
    // Sample 0: latent 1 (4.5); sample 1: latent 0 (4.0).
    assert_eq!(value(&kind, &map, latents.clone(), ColumnChoice::MostActive(1)), (4.5 + 4.0) / 2.0);
    // Above 0.25: latents 1 and 2 of sample 0 (4.5 + 3), latent 0 of sample 1 (4).
    assert_eq!(value(&kind, &map, latents, ColumnChoice::Above(0.25)), (7.5 + 4.0) / 2.0);
}
