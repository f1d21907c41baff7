//! The closed forms against finite differences of the map itself, and a pair that recovers what it was built from.

use std::sync::Arc;

use burn::tensor::{Device, Distribution, Tensor};
use sememe_kernels::{Activation, Pattern};

use super::*;
use crate::dictionary::{Batch, BatchTopK, DictionaryPlan, TopK};
use crate::penalty::PenaltyKind;
use crate::train::{Event, Fit, Flow};

fn random<const D: usize>(shape: [usize; D], scale: f64, device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, scale), device)
}

fn numbers<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    tensor.to_data().iter::<f32>().map(f64::from).collect()
}

fn norm(is_centred: bool, d: usize, device: &Device) -> FrozenNorm {
    FrozenNorm { is_centred, factor: random([d], 0.3, device) + 1.0, bias: is_centred.then(|| random([d], 0.3, device)), epsilon: 1e-5 }
}

/// A layer with or without each of its parts.
fn layer(is_gated: bool, before: Option<bool>, after: Option<bool>, is_residual: bool, device: &Device) -> Layer {
    let (d, h) = (6, 9);
    let branches = if is_gated { 2 } else { 1 };
    Layer {
        into: random([d, branches * h], 0.6, device),
        into_bias: (!is_gated).then(|| random([branches * h], 0.3, device)),
        out: random([h, d], 0.6, device),
        out_bias: Some(random([d], 0.3, device)),
        activation: if is_gated { Activation::Silu } else { Activation::GeluTanh },
        is_gated,
        norm_before: before.map(|is_centred| norm(is_centred, d, device)),
        norm_after: after.map(|is_centred| norm(is_centred, d, device)),
        is_residual,
        scale_in: 1.7,
        scale_out: 0.6,
    }
}

fn layers(device: &Device) -> Vec<Layer> {
    [
        (false, None, None, false),
        (true, None, None, false),
        (true, Some(false), None, false),
        (false, Some(true), None, true),
        (true, None, Some(false), false),
        (true, Some(false), Some(false), true),
        (false, Some(true), Some(true), false),
    ]
    .into_iter()
    .map(|(gated, before, after, residual)| layer(gated, before, after, residual, device))
    .collect()
}

fn patterns() -> (Arc<Pattern>, Arc<Pattern>) {
    (
        Arc::new(Pattern::new(vec![0, 2, 3, 3, 6], vec![1, 4, 0, 0, 2, 4], 7)),
        Arc::new(Pattern::new(vec![0, 3, 4, 6, 7], vec![0, 1, 5, 3, 0, 2, 5], 8)),
    )
}

/// `∂(E_b · layer(x̂))/∂z_a` by central differences.
#[test]
fn blocks_equal_finite_differences() {
    let device = Device::flex();
    let (x, y) = patterns();
    for (number, layer) in layers(&device).iter().enumerate() {
        let (at, decoder, encoder) = (random([4, 6], 2.0, &device), random([7, 6], 0.5, &device), random([8, 6], 0.5, &device));
        let found = blocks(layer, at.clone(), decoder.clone(), encoder.clone(), &x, &y);
        let entries = numbers(&found.entries);
        let step = 2e-2;
        for token in 0..4 {
            for (column, &a) in x.row(token).iter().enumerate() {
                let direction = decoder.clone().narrow(0, a as usize, 1) * step;
                let here = at.clone().narrow(0, token, 1);
                let moved = layer.apply(here.clone() + direction.clone()) - layer.apply(here - direction);
                let read = numbers(&(moved.matmul(encoder.clone().transpose()) / (2.0 * step)));
                for (row, &b) in y.row(token).iter().enumerate() {
                    let entry = entries[found.starts[token] + row * x.row(token).len() + column];
                    let expected = read[b as usize];
                    assert!((entry - expected).abs() < 2e-3 + 2e-3 * expected.abs(), "layer {number}, token {token}: {entry} {expected}");
                }
            }
        }
    }
}

/// The gradient of a sum over the blocks along random directions of decoder, encoder and x̂, by central differences.
#[test]
fn gradients_equal_finite_differences() {
    let device = Device::flex();
    let tracked = device.clone().autodiff();
    let (x, y) = patterns();
    for (number, layer) in layers(&device).iter().enumerate() {
        let values = [random([4, 6], 2.0, &device), random([7, 6], 0.5, &device), random([8, 6], 0.5, &device)];
        let weights = random([10], 1.0, &device);
        let total = |[at, decoder, encoder]: [Tensor<2>; 3], weights: Tensor<1>| {
            (blocks(layer, at, decoder, encoder, &x, &y).entries * weights).sum()
        };
        assert_eq!(weights.dims(), blocks(layer, values[0].clone(), values[1].clone(), values[2].clone(), &x, &y).entries.dims());
        let leaves = values.clone().map(|value| Tensor::from_data(value.into_data(), &tracked).require_grad());
        let gradients = total(leaves.clone(), Tensor::from_inner(weights.clone())).backward();
        for which in 0..3 {
            let direction = random(values[which].dims(), 1.0, &device);
            let step = 1e-2;
            let at = |sign: f64| {
                let mut moved = values.clone();
                moved[which] = moved[which].clone() + direction.clone() * (sign * step);
                f64::from(total(moved, weights.clone()).into_scalar::<f32>())
            };
            let expected = (at(1.0) - at(-1.0)) / (2.0 * step);
            let gradient = leaves[which].grad(&gradients).expect("a gradient");
            let found = f64::from((gradient * direction.clone()).sum().into_scalar::<f32>());
            assert!((found - expected).abs() < 5e-3 + 1e-2 * expected.abs(), "layer {number}, argument {which}: {found} {expected}");
        }
    }
}

/// Attention's Jacobian, with the pattern fixed and in full, against central differences over a whole context.
#[test]
fn attention_equals_finite_differences() {
    let device = Device::flex();
    let (d, heads, kv_heads, e, tokens) = (6, 4, 2, 4, 4);
    let (x, y) = patterns();
    for window in [None, Some(2)] {
        let attention = Attention {
            norm: Some(norm(false, d, &device)),
            query: random([d, heads * e], 0.7, &device),
            key: random([d, kv_heads * e], 0.7, &device),
            value: random([d, kv_heads * e], 0.7, &device),
            biases: Some([random([heads * e], 0.3, &device), random([kv_heads * e], 0.3, &device), random([kv_heads * e], 0.3, &device)]),
            out: random([heads * e, d], 0.5, &device),
            out_bias: None,
            heads,
            kv_heads,
            score_scale: 0.5,
            window,
            frequencies: vec![1.0],
        };
        let (at, decoder, encoder) = (random([tokens, d], 1.5, &device), random([7, d], 0.5, &device), random([8, d], 0.5, &device));
        let full = numbers(&attention_jacobian(&attention, &at, (&decoder, &x), (&encoder, &y), false));
        let (rows, columns, step) = (y.row_of_entries(), x.row_of_entries(), 1e-2);
        for (column, (&s, &a)) in columns.iter().zip(x.latents()).enumerate() {
            let unit: Vec<f32> = (0..tokens).map(|t| if t == s as usize { step as f32 } else { 0.0 }).collect();
            let moved = Tensor::<1>::from_floats(unit.as_slice(), &device).unsqueeze_dim::<2>(1) * decoder.clone().narrow(0, a as usize, 1);
            let change = attention.apply(&(at.clone() + moved.clone())) - attention.apply(&(at.clone() - moved));
            let read = numbers(&(change.matmul(encoder.clone().transpose()) / (2.0 * step)));
            for (row, (&t, &b)) in rows.iter().zip(y.latents()).enumerate() {
                let (found, expected) = (full[row * columns.len() + column], read[t as usize * 8 + b as usize]);
                assert!((found - expected).abs() < 2e-3 + 5e-3 * expected.abs(), "({t},{b}) of ({s},{a}): {found} {expected}");
                assert!(s <= t || found == 0.0, "nothing flows back in time");
            }
        }
        // With one token to look at the pattern cannot change.
        let one = |pattern: &Pattern| pattern.restricted(1, |_| true);
        let (x1, y1, first) = (one(&x), one(&y), at.clone().narrow(0, 0, 1));
        let [fixed, full] =
            [true, false].map(|holds| numbers(&attention_jacobian(&attention, &first, (&decoder, &x1), (&encoder, &y1), holds)));
        assert!(fixed.iter().zip(&full).all(|(a, b)| (a - b).abs() < 1e-4), "{fixed:?} {full:?}");
    }
}

/// A surrogate on blocks is the sum over tokens and entries; a normalised one does not change when all entries are scaled.
#[test]
fn terms_by_hand() {
    let device = Device::flex();
    let of = |scale: f64| Blocks {
        entries: Tensor::<1>::from_floats([3.0, -4.0, 1.0], &device) * scale,
        starts: vec![0, 2, 3],
        x: Arc::new(Pattern::new(vec![0, 2, 3], vec![0, 1, 0], 2)),
        y: Arc::new(Pattern::new(vec![0, 1, 2], vec![0, 0], 1)),
    };
    let value = |normalise: Normalise, scale: f64| {
        let term = JacobianTerm { normalise, ..JacobianTerm::default() };
        f64::from(term.value(&of(scale), 2).into_scalar::<f32>())
    };
    assert!((value(Normalise::Off, 1.0) - 4.0).abs() < 1e-6);
    let token = (7.0 / (25.0_f64 / 2.0).sqrt() + 1.0) / 2.0;
    let batch = 8.0 / (26.0_f64 / 3.0).sqrt() / 2.0;
    for scale in [1.0, 0.1] {
        assert!((value(Normalise::Token, scale) - token).abs() < 1e-5, "{}", value(Normalise::Token, scale));
        assert!((value(Normalise::Batch, scale) - batch).abs() < 1e-5);
    }
}

/// Every element-wise surrogate of the registry is accepted, every other penalty refused.
#[test]
fn surrogates_of_the_registry() {
    let accepted: Vec<&str> = PenaltyKind::ENTRIES
        .iter()
        .filter(|entry| {
            let term = format!("kind = {{ name = \"{}\" }}", entry.tag);
            toml_term(&term).is_some_and(|term| term.check().is_ok())
        })
        .map(|entry| entry.tag)
        .collect();
    assert_eq!(accepted, ["dependency-l1", "frobenius", "mcp", "scad", "log", "tanh", "capped-l1", "lp"]);
}

fn toml_term(text: &str) -> Option<JacobianTerm> {
    let kind = text.split('"').nth(1)?;
    let kind = serde_json::from_value(serde_json::json!({ "name": kind })).ok()?;
    Some(JacobianTerm { kind, ..JacobianTerm::default() })
}

/// Subsets of tokens and latents estimate the whole without bias.
#[test]
fn samples_are_unbiased() {
    let device = Device::flex();
    let layer = layer(true, None, None, false, &device);
    let (at, decoder, encoder) = (random([4, 6], 2.0, &device), random([7, 6], 0.5, &device), random([8, 6], 0.5, &device));
    let (x, y) = patterns();
    let value = |term: &JacobianTerm, step: usize| {
        let sample = term.sample(&x, &y, &mut crate::train::StepContext::new(0, step, 1).stream("jacobian"));
        let found = blocks(&layer, at.clone().narrow(0, 0, sample.tokens), decoder.clone(), encoder.clone(), &sample.x, &sample.y);
        f64::from(term.value(&found, sample.tokens).into_scalar::<f32>()) * sample.factor
    };
    let whole = value(&JacobianTerm::default(), 0);
    let part = JacobianTerm { latents_fraction: 0.5, ..JacobianTerm::default() };
    let draws = 4000;
    let mean = (0..draws).map(|step| value(&part, step)).sum::<f64>() / f64::from(draws as u32);
    assert!((mean / whole - 1.0).abs() < 0.05, "{mean} {whole}");
}

/// With the penalty a pair has a sparser Jacobian than without, at about the same reconstruction; the same seed gives the same bits, resumed or not.
#[test]
fn training_a_pair() {
    let device = Device::flex().autodiff();
    let plain = Device::flex();
    plain.seed(3);
    let map = layer(true, None, None, false, &plain);
    let map = Layer { scale_in: 1.0, scale_out: 1.0, ..map };
    let data = random([2048, 6], 1.0, &plain);
    let target = map.apply(data.clone());
    let config = |weight: f64| PairConfig {
        input: DictionaryKind::TopK(TopK { n: 24, k: 3, ..TopK::default() }),
        output: Some(DictionaryKind::BatchTopK(BatchTopK { n: 20, k: 3, ..BatchTopK::default() })),
        jacobian: JacobianTerm { weight, ..JacobianTerm::default() },
    };
    let plan = DictionaryPlan { steps: 300, batch_tokens: 256, learning_rate: Some(5e-3), warm_up_steps: 10, ..DictionaryPlan::default() };
    let mut batches = |step: usize| {
        let from = step % 8 * 256;
        Ok(Batch { input: data.clone().narrow(0, from, 256), target: target.clone().narrow(0, from, 256) })
    };
    let mut run = |weight: f64, stop: Option<usize>| {
        let config = config(weight);
        let pair = Pair::new(&config, 6, 6, 1, &device).expect("a pair");
        let mut last = std::collections::BTreeMap::new();
        let mut watch = |event: &Event<'_>, fit: &PairFit| {
            if let Event::Step { losses, .. } = event {
                last = (*losses).clone();
            }
            if Some(fit.step) == stop { Flow::Stop } else { Flow::Continue }
        };
        let mut fit = train(start(pair, &plan, 1), &map, &config.jacobian, &mut batches, &plan, &mut Watch(&mut watch)).expect("trained");
        if stop.is_some() {
            let memory = fit.model.memory(&plain);
            let Fit { model, adam, step, guards, .. } = fit;
            fit = resume(model, memory, adam, step, guards, 1).expect("resumed");
            fit = train(fit, &map, &config.jacobian, &mut batches, &plan, &mut Watch(&mut |_: &Event<'_>, _: &PairFit| Flow::Continue))
                .expect("trained");
        }
        let pair = fit.model.evaluated();
        let z = pair.input.codes(data.clone().narrow(0, 0, 512));
        let reconstructed = pair.input.decode(&z, &data.clone().narrow(0, 0, 512));
        let y = pair.output.codes(target.clone().narrow(0, 0, 512)).active().0;
        let (x, values) = z.active();
        let found = blocks(&map, reconstructed.clone(), pair.input.w_dec.val(), pair.output.w_enc.val(), &x, &y);
        let mut entries = metric::Entries::default();
        entries.accumulate(&found.entries.to_data().iter::<f32>().collect::<Vec<_>>(), 512);
        let agreement = metric::ablations(&map, &pair, &found, &values, &reconstructed);
        (numbers(&pair.input.w_dec.val()), entries.finish(), agreement, last)
    };
    let (_, without, _, error_without) = run(0.0, None);
    let (weights, with, agreement, error_with) = run(0.3, None);
    assert!(with.l1 < 0.7 * without.l1, "{} {}", with.l1, without.l1);
    assert!(with.above[3] < without.above[3], "{with:?} {without:?}");
    assert!(error_with["input/reconstruction"] < 2.0 * error_without["input/reconstruction"], "{error_with:?} {error_without:?}");
    assert!(agreement.unit_correlation > 0.5, "{agreement:?}");
    assert_eq!(weights, run(0.3, Some(120)).0, "a stopped pair ends at the same bits");
}

struct Watch<'a>(&'a mut dyn FnMut(&Event<'_>, &PairFit) -> Flow);

impl crate::train::Observer<Pair> for Watch<'_> {
    fn observe(&mut self, event: &Event<'_>, fit: &PairFit) -> Flow {
        (self.0)(event, fit)
    }
}
