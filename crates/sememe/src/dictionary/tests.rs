//! Laws that hold for every dictionary in the catalogue, and what single members promise.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData, Tolerance};
use rand_distr::{Distribution, StandardNormal};
use sememe_truth::random::stream;

use super::*;
use crate::train::{Adam, AdamConfig, Event, Fit, Flow, Observer, gradients_of, parameters, replace_parameters};

const N: usize = 24;
const D: usize = 8;

/// The member at a size that a test can afford.
fn small(kind: DictionaryKind) -> DictionaryKind {
    use DictionaryKind as K;
    let dead_after_tokens = 64;
    match kind {
        K::TopK(c) => K::TopK(TopK { n: N, k: 3, dead_after_tokens, ..c }),
        K::BatchTopK(c) => K::BatchTopK(BatchTopK { n: N, k: 3, dead_after_tokens, ..c }),
        K::Matryoshka(c) => K::Matryoshka(Matryoshka { n: N, k: 3, prefix_fractions: vec![0.25, 0.5, 1.0], dead_after_tokens, ..c }),
        K::JumpRelu(c) => K::JumpRelu(JumpRelu { n: N, weight: 0.05, initial_threshold: 0.2, dead_after_tokens, ..c }),
        K::Relu(c) => K::Relu(Relu { n: N, weight: 0.2, dead_after_tokens, ..c }),
        K::PAnneal(c) => K::PAnneal(PAnneal { n: N, weight: 0.2, dead_after_tokens, ..c }),
        K::Gated(c) => K::Gated(Gated { n: N, weight: 0.2, dead_after_tokens, ..c }),
        K::Nonlinear(c) => K::Nonlinear(Nonlinear { n: N, hidden: 6, dead_after_tokens, ..c }),
        K::Transcoder(c) => K::Transcoder(Transcoder { base: Box::new(small(*c.base)), skip: true }),
        K::Crosscoder(c) => K::Crosscoder(Crosscoder { base: Box::new(small(*c.base)), ..c }),
    }
}

fn all() -> Vec<DictionaryKind> {
    let mut all: Vec<_> = DictionaryKind::defaults().into_iter().map(small).collect();
    all.push(small(DictionaryKind::JumpRelu(JumpRelu { penalty: L0Penalty::L0Target, ..JumpRelu::default() })));
    all.push(small(DictionaryKind::JumpRelu(JumpRelu { penalty: L0Penalty::Tanh, ..JumpRelu::default() })));
    all
}

fn device() -> Device {
    Device::flex().autodiff()
}

/// Normal numbers, the same for the same shape.
fn draw(rows: usize, width: usize) -> Tensor<2> {
    drawn(5, rows, width)
}

/// Normal numbers, the same for the same seed and shape.
fn drawn(seed: u64, rows: usize, width: usize) -> Tensor<2> {
    let mut stream = stream(seed, &format!("{rows}/{width}"));
    let values: Vec<f32> = (0..rows * width).map(|_| StandardNormal.sample(&mut stream)).collect();
    Tensor::from_data(TensorData::new(values, [rows, width]), &Device::flex())
}

/// Gives every parameter random noise, so that no law holds by accident of zeros.
struct Shake;

impl ModuleMapper for Shake {
    fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
        let shape = param.val().dims();
        let noise = draw(1, shape.iter().product()).reshape(shape) * 0.1;
        param.map(|value| Tensor::from_inner(value.inner() + noise).require_grad())
    }
}

fn shaken(kind: &DictionaryKind) -> Dictionary {
    let dictionary = Dictionary::new(kind.clone(), Widths::same(D), 3, &device()).expect("a dictionary");
    let mut dictionary = dictionary.map(&mut Shake);
    dictionary.memory.set_threshold(0.5);
    dictionary
}

fn lift(x: Tensor<2>) -> Tensor<2> {
    Tensor::from_inner(x)
}

fn at(step: usize) -> StepContext {
    StepContext::new(0, step, 100)
}

fn total(dictionary: &Dictionary, batch: &Batch) -> Tensor<1> {
    let draft = dictionary.kind.member().draft(dictionary, batch, &at(50));
    draft.losses.into_iter().map(|loss| loss.value * loss.weight).reduce(|a, b| a + b).expect("a loss")
}

/// The derivative along a random direction equals a central difference, in all weights that are not behind a step.
#[test]
fn gradients_are_derivatives() {
    for kind in all() {
        let dictionary = shaken(&kind);
        let batch: Batch = lift(draw(16, D)).into();
        let gradients = gradients_of(&dictionary, &total(&dictionary, &batch).backward());
        for name in ["w_enc", "b_enc", "w_dec", "b_dec", "w_skip", "r_mag", "b_mag"] {
            let Some((gradient, shape)) = gradients.get(name).cloned() else {
                assert!(!["w_enc", "b_enc", "w_dec", "b_dec"].contains(&name), "{}: no gradient in {name}", kind.tag());
                continue;
            };
            // Gradients through a step, or past a detached decoder, are no derivatives.
            let stepless = match kind.tag() {
                "gated" => name == "b_mag",
                "jumprelu" => name == "w_dec",
                _ => true,
            };
            if !stepless {
                continue;
            }
            let direction = gradient.clone() / gradient.clone().abs().max().into_scalar::<f32>().max(1e-12);
            let moved = |h: f32| {
                let mut values = parameters(&dictionary);
                let (value, _) = values.remove(name).expect("a parameter");
                values.insert(name.into(), (value + direction.clone() * h, shape.clone()));
                f64::from(total(&replace_parameters(dictionary.clone(), values).expect("fits"), &batch).into_scalar::<f32>())
            };
            let h = 1e-3;
            let difference = (moved(h) - moved(-h)) / (2.0 * f64::from(h));
            let expected = f64::from((gradient * direction.clone()).sum().into_scalar::<f32>());
            let tolerance = 0.02 * expected.abs() + 0.02;
            assert!((difference - expected).abs() < tolerance, "{} {name}: {difference} against {expected}", kind.tag());
        }
    }
}

/// Codes formed as a list give the losses, gradients and codes of those formed as a matrix.
#[test]
fn list_and_matrix_agree() {
    let members = all().into_iter().filter(|kind| !["topk", "batchtopk", "matryoshka"].contains(&kind.tag())).map(|kind| match kind {
        DictionaryKind::JumpRelu(c) => DictionaryKind::JumpRelu(JumpRelu { epsilon: 0.4, ..c }),
        DictionaryKind::Transcoder(c) => {
            DictionaryKind::Transcoder(Transcoder { base: Box::new(small(DictionaryKind::Gated(Gated::default()))), ..c })
        }
        kind => kind,
    });
    for (kind, seed) in members.flat_map(|kind| (0..12).map(move |seed| (kind.clone(), seed))) {
        let rows = [1, 2, 40, 70][seed as usize % 4];
        let mut dictionary = shaken(&kind);
        // From nearly none to nearly all active.
        let shift = [-1.5, -0.5, 0.0, 1.5][seed as usize / 3];
        dictionary.b_enc = dictionary.b_enc.map(|b| Tensor::from_inner(b.inner() + shift).require_grad());
        let batch: Batch = lift(drawn(seed, rows, D)).into();
        let with = |dense_from: f64| {
            let dictionary = Dictionary { dense_from, ..dictionary.clone() };
            let draft = dictionary.kind.member().draft(&dictionary, &batch, &at(40));
            let losses: Vec<f32> = draft.losses.iter().map(|loss| loss.value.clone().into_scalar::<f32>()).collect();
            let is_list = matches!(draft.codes, Codes::Sparse { .. });
            let gradients = gradients_of(&dictionary, &total(&dictionary, &batch).backward());
            (losses, gradients, draft.codes.active(), dictionary.codes(batch.input.clone()).dense().into_data(), is_list)
        };
        let (list, matrix) = (with(f64::INFINITY), with(0.0));
        assert_eq!((list.4, matrix.4), (true, false));
        for (a, b) in list.0.iter().zip(&matrix.0) {
            assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{} seed {seed}: {a} against {b}", kind.tag());
        }
        assert_eq!(list.2.0.latents(), matrix.2.0.latents(), "{} seed {seed}", kind.tag());
        list.3.assert_approx_eq::<f32>(&matrix.3, Tolerance::absolute(1e-5));
        assert_eq!(list.1.keys().collect::<Vec<_>>(), matrix.1.keys().collect::<Vec<_>>());
        for (name, (gradient, _)) in &list.1 {
            let (expected, _) = &matrix.1[name];
            let size = expected.clone().abs().max().into_scalar::<f32>().max(1.0);
            let apart = (gradient.clone() - expected.clone()).abs().max().into_scalar::<f32>();
            assert!(apart <= 2e-5 * size, "{} seed {seed} {name}: {apart} of {size}", kind.tag());
        }
    }
}

/// The way is chosen by how many latents are active.
#[test]
fn many_active_latents_make_a_matrix() {
    let kind = small(DictionaryKind::Relu(Relu::default()));
    for (shift, is_list) in [(-1.5, true), (0.0, false)] {
        let mut dictionary = shaken(&kind);
        dictionary.b_enc = dictionary.b_enc.map(|b| Tensor::from_inner(b.inner() * 0.0 + shift * 2.0).require_grad());
        assert_eq!(matches!(dictionary.codes(lift(draw(64, D))), Codes::Sparse { .. }), is_list, "{shift}");
    }
}

/// After training the scale can be folded in: `D′(x) = D(s x)/s`, thresholds and `b_dec` included.
#[test]
fn folding_a_scale_keeps_the_output() {
    for kind in all() {
        let dictionary = shaken(&kind).evaluated();
        let x = draw(16, D);
        let scales: &[(f64, f64)] = if kind.member().form().centred { &[(2.5, 2.5), (0.3, 0.3)] } else { &[(2.5, 2.5), (2.0, 0.5)] };
        for &(s_in, s_out) in scales {
            let expected = dictionary.reconstruct(x.clone() * s_in) / s_out;
            let folded = dictionary.clone().fold_scale(s_in, s_out);
            folded.reconstruct(x.clone()).into_data().assert_approx_eq::<f32>(&expected.into_data(), Tolerance::absolute(2e-5));
        }
    }
}

/// The same with a scale of its own for each column, as several layers side by side have.
#[test]
fn folding_scales_of_columns_keeps_the_output() {
    for kind in all().into_iter().filter(|kind| !kind.member().form().centred) {
        let dictionary = shaken(&kind).evaluated();
        let (x, factors) = (draw(16, D), (0..D).map(|j| 0.5 + j as f64).collect::<Vec<_>>());
        let row = Tensor::<1>::from_floats(factors.iter().map(|f| *f as f32).collect::<Vec<_>>().as_slice(), &Device::flex());
        let row = row.unsqueeze_dim::<2>(0);
        let expected = dictionary.reconstruct(x.clone() * row.clone()) / row;
        let folded = dictionary.clone().fold_columns(&factors, &factors);
        folded.reconstruct(x.clone()).into_data().assert_approx_eq::<f32>(&expected.into_data(), Tolerance::absolute(2e-5));
    }
}

#[test]
fn a_scale_is_estimated_over_batches() {
    let mut estimate = ScaleEstimate::default();
    estimate.observe(&Tensor::from_floats([[3.0, 4.0], [0.0, 1.0]], &Device::flex()));
    estimate.observe(&Tensor::from_floats([[6.0, 8.0]], &Device::flex()));
    assert!((estimate.scale(4) - 2.0 * 3.0 / 16.0).abs() < 1e-9);
}

/// Weights as plain numbers give the same dictionary back, and a moved centre is undone by moving it back.
#[test]
fn raw_weights_round_trip() {
    for kind in all() {
        let dictionary = shaken(&kind).evaluated();
        let raw = dictionary.raw();
        let mut again = Dictionary::from_raw(kind.clone(), raw.clone(), &Device::flex()).expect("fits");
        again.memory = dictionary.memory.clone();
        let x = draw(5, D);
        again.reconstruct(x.clone()).into_data().assert_eq(&dictionary.reconstruct(x).into_data(), true);
        let moved = raw.clone().moved_centre(-1.0).moved_centre(1.0);
        assert!(moved.b_enc.iter().zip(&raw.b_enc).all(|(a, b)| (a - b).abs() < 1e-6));
        let short = RawWeights { b_dec: vec![0.0], ..raw };
        let error = Dictionary::from_raw(kind, short, &Device::flex()).expect_err("an error").to_string();
        assert!(error.ends_with("`b_dec` is of 1 numbers; give 8 numbers"), "{error}");
    }
}

/// A batchtopk saved as jumprelu encodes as before.
#[test]
fn as_jumprelu_is_the_same_map() {
    for kind in all() {
        let dictionary = shaken(&kind).evaluated();
        let x = draw(16, D);
        let (a, b) = (dictionary.reconstruct(x.clone()), dictionary.as_jumprelu().reconstruct(x));
        a.into_data().assert_approx_eq::<f32>(&b.into_data(), Tolerance::absolute(1e-6));
    }
}

struct Losses(Vec<BTreeMap<String, f64>>, usize);

impl Observer<Dictionary> for Losses {
    fn observe(&mut self, event: &Event<'_>, fit: &Fit<Dictionary>) -> Flow {
        if let Event::Step { losses, .. } = event {
            self.0.push((*losses).clone());
        }
        if fit.step == self.1 { Flow::Stop } else { Flow::Continue }
    }
}

/// Tokens that are sums of two of 12 directions: `[tokens, D]`.
fn sparse_tokens(tokens: usize) -> Tensor<2> {
    let atoms = draw(12, D);
    let codes = draw(tokens, 12).abs();
    let active = codes.clone().greater_elem(1.4).float();
    (codes * active).matmul(atoms)
}

fn plan(steps: usize) -> DictionaryPlan {
    DictionaryPlan { steps, batch_tokens: 64, learning_rate: Some(3e-3), warm_up_steps: 10, ..DictionaryPlan::default() }
}

#[test]
fn training_reconstructs_and_reports() {
    let data = sparse_tokens(512);
    for kind in all() {
        let dictionary = Dictionary::new(kind.clone(), Widths::same(D), 1, &device()).expect("a dictionary");
        let mut seen = Losses(Vec::new(), usize::MAX);
        let plan = plan(150);
        let fit = train(start(dictionary, &plan, 1), &mut Repeat { data: data.clone(), batch: 64 }, &plan, &mut seen).expect("trains");
        let (first, last) = (&seen.0[0], &seen.0[149]);
        assert!(last["reconstruction"] < 0.7 * first["reconstruction"], "{}: {first:?} to {last:?}", kind.tag());
        assert!(last["l0"] > 0.0 && last["l0"] < N as f64, "{}: {last:?}", kind.tag());
        if fit.model.kind.member().form().unit_rows {
            let w = fit.model.w_dec.val().inner();
            let norms = (w.clone() * w).sum_dim(1).sqrt();
            norms.clone().into_data().assert_approx_eq::<f32>(&norms.ones_like().into_data(), Tolerance::absolute(1e-5));
        }
    }
}

/// Stopped, saved as named tensors and resumed, every member ends at the same bits as without a stop.
#[test]
fn resumed_training_ends_at_the_same_bits() {
    let data = sparse_tokens(512);
    let batches = || Repeat { data: data.clone(), batch: 64 };
    for kind in all() {
        let dictionary = || Dictionary::new(kind.clone(), Widths::same(D), 1, &device()).expect("a dictionary");
        let plan = plan(12);
        let whole = train(start(dictionary(), &plan, 1), &mut batches(), &plan, &mut Losses(Vec::new(), 12)).expect("trains");
        let half = train(start(dictionary(), &plan, 1), &mut batches(), &plan, &mut Losses(Vec::new(), 5)).expect("trains");
        assert_eq!(half.step, 5);
        let model = replace_parameters(dictionary(), parameters(&half.model)).expect("fits");
        let adam = Adam::restore(plan.adam.clone(), half.adam.taken, half.adam.state()).expect("fits");
        let resumed = resume(model, half.model.memory.state(&Device::flex()), adam, half.step, 1).expect("fits");
        let resumed = train(resumed, &mut batches(), &plan, &mut Losses(Vec::new(), 12)).expect("trains");
        for (name, (value, _)) in parameters(&whole.model) {
            value.into_data().assert_eq(&parameters(&resumed.model)[&name].0.clone().into_data(), true);
        }
        assert_eq!(whole.model.memory, resumed.model.memory, "{}", kind.tag());
    }
}

/// AuxK reaches the encoder and decoder rows of dead latents, and no other; without it they stay.
#[test]
fn dead_latents_move() {
    let kind = small(DictionaryKind::TopK(TopK::default()));
    let step = |weight: f64| {
        let DictionaryKind::TopK(config) = kind.clone() else { unreachable!() };
        let kind = DictionaryKind::TopK(TopK { auxk: AuxK { weight, k: None }, ..config });
        let mut dictionary = Dictionary::new(kind, Widths::same(D), 3, &device()).expect("a dictionary");
        // Latents 0 and 1 are out of reach of the k largest, but positive on some tokens.
        dictionary.b_enc = dictionary.b_enc.clone().map(|b| {
            let shift = Tensor::<1>::from_floats([[-0.5; 2].as_slice(), &[2.0; N - 2]].concat().as_slice(), &Device::flex());
            Tensor::from_inner(b.inner() + shift).require_grad()
        });
        dictionary.memory.silent_tokens[0] = 1e6;
        dictionary.memory.silent_tokens[1] = 1e6;
        let batch: Batch = lift(draw(64, D)).into();
        let gradients = gradients_of(&dictionary, &total(&dictionary, &batch).backward());
        ["w_enc", "w_dec"].map(|name| {
            let (gradient, shape) = gradients[name].clone();
            let rows = gradient.reshape::<2, _>(shape).abs().sum_dim(1).into_data().iter::<f32>().collect::<Vec<_>>();
            (rows[0], rows[1])
        })
    };
    for (first, second) in step(1.0 / 32.0) {
        assert!(first > 0.0 && second > 0.0, "a dead latent has no gradient: {first}, {second}");
    }
    assert_eq!(step(0.0), [(0.0, 0.0); 2]);
}

/// The residual of AuxK is detached: its gradient in `b_dec` is only that of the pre-activations, and its value is scaled as documented.
#[test]
fn auxk_by_hand() {
    let kind = DictionaryKind::TopK(TopK { n: 2, k: 1, auxk: AuxK { weight: 1.0, k: Some(2) }, dead_after_tokens: 1 });
    let mut dictionary = Dictionary::new(kind, Widths::same(2), 0, &device()).expect("a dictionary");
    let identity = || Param::from_tensor(Tensor::<2>::from_inner(Tensor::eye(2, &Device::flex())).require_grad());
    (dictionary.w_enc, dictionary.w_dec) = (identity(), identity());
    dictionary.memory.silent_tokens = vec![0.0, 5.0];
    let x = lift(Tensor::from_floats([[3.0, 1.0], [5.0, 2.0]], &Device::flex()));
    let batch: Batch = x.into();
    let draft = dictionary.kind.member().draft(&dictionary, &batch, &at(0));
    let loss = draft.losses.iter().find(|loss| loss.name == "auxk").expect("a dead latent");
    // Residuals (0, 1) and (0, 2) are reconstructed in full by latent 1.
    assert_eq!(loss.value.clone().into_scalar::<f32>(), 0.0);
    // One dead latent of two wanted.
    assert_eq!(loss.weight, 0.5);
}

/// A transcoder is blind to `b_dec` in its encoder, and its skip begins at 0.
#[test]
fn transcoder_and_crosscoder_forms() {
    let widths = Widths { input: 5, output: 7 };
    let kind = small(DictionaryKind::Transcoder(Transcoder::default()));
    let dictionary = Dictionary::new(kind, widths, 0, &device()).expect("a dictionary");
    assert_eq!(dictionary.reconstruct(lift(draw(3, 5))).dims(), [3, 7]);
    assert_eq!(dictionary.w_skip.as_ref().map(|w| w.val().abs().sum().into_scalar::<f32>()), Some(0.0));
    let kind = small(DictionaryKind::Crosscoder(Crosscoder::default()));
    let crosscoder = Dictionary::new(kind, Widths::same(8), 0, &device()).expect("a dictionary");
    let w = crosscoder.w_dec.val();
    let expected = w.clone().narrow(1, 0, 4).powi_scalar(2).sum_dim(1).sqrt() + w.narrow(1, 4, 4).powi_scalar(2).sum_dim(1).sqrt();
    crosscoder.decoder_norms().into_data().assert_approx_eq::<f32>(&expected.flatten::<1>(0, 1).into_data(), Tolerance::absolute(1e-5));
}

#[test]
fn settings_that_make_no_sense() {
    let refuse = |text: &str, message: &str| {
        let kind: DictionaryKind = serde_json::from_str(text).expect("a config");
        let error = Dictionary::new(kind, Widths::same(8), 0, &device()).expect_err("an error");
        assert_eq!(error.to_string(), message);
    };
    refuse(r#"{"name": "topk", "n": 4, "k": 5}"#, "dictionary `topk`: `k` is 5; give at most n = 4");
    refuse(r#"{"name": "topk", "n": 4, "k": 0}"#, "dictionary `topk`: `k` is 0; give at least 1 active latent");
    refuse(r#"{"name": "relu", "n": 0}"#, "dictionary `relu`: `n` is 0; give at least 1 latent");
    refuse(r#"{"name": "jumprelu", "n": 4, "epsilon": 0}"#, "dictionary `jumprelu`: `epsilon` is 0; give a finite number above 0");
    refuse(
        r#"{"name": "crosscoder", "layers": 3}"#,
        "dictionary `crosscoder`: `layers` is 3; give a number that divides the width 8 of all layers together",
    );
    refuse(
        r#"{"name": "transcoder", "base": {"name": "crosscoder"}}"#,
        "dictionary `transcoder`: `base` is `crosscoder`; give a dictionary that is not itself made of another",
    );
    let unknown = serde_json::from_str::<DictionaryKind>(r#"{"name": "topk", "kk": 3}"#).expect_err("an error");
    assert!(unknown.to_string().contains("unknown field `kk`"), "{unknown}");
}

/// NaN in the data or in a weight stops training with its name.
#[test]
fn nan_is_reported() {
    let plan = plan(5);
    let make = || Dictionary::new(small(DictionaryKind::TopK(TopK::default())), Widths::same(D), 1, &device()).expect("a dictionary");
    let mut poisoned = make();
    poisoned.w_enc = poisoned.w_enc.clone().map(|w| Tensor::from_inner(w.inner() * f32::NAN).require_grad());
    let run = |dictionary: Dictionary| {
        let mut batches = Repeat { data: sparse_tokens(64), batch: 64 };
        train(start(dictionary, &plan, 1), &mut batches, &plan, &mut Losses(Vec::new(), 5)).map(|fit| fit.step)
    };
    assert_eq!(run(make()), Ok(5));
    let error = run(poisoned).expect_err("NaN");
    assert!(error.to_string().starts_with("step 0: `parameter w_enc` is not finite"), "{error}");
}

#[test]
fn default_learning_rate_by_hand() {
    let plan = DictionaryPlan { steps: 10_000, ..DictionaryPlan::default() };
    let rate = plan.rate(1 << 16);
    for (step, expected) in [(0, 1e-7), (999, 1e-4), (5000, 1e-4), (9000, 0.5e-4)] {
        assert!((rate.at(step, 10_000) - expected).abs() < 1e-12, "step {step}: {}", rate.at(step, 10_000));
    }
    assert_eq!(Adam::new(AdamConfig::default()).taken, 0);
}
