//! Fresh models: a function of the seed, trained by gradients that reach every parameter, saved and read back.

mod common;

use std::path::PathBuf;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor};
use common::fixture;
use sememe_lm::{Description, Precision, Tokens, Transformer, describe, load_model, save};

const FAMILIES: [&str; 9] = ["llama3", "smollm", "qwen2", "qwen3", "qwen3_5", "qwen3_next", "gemma3", "gpt2", "neox"];

fn description(name: &str) -> Description {
    describe(&fixture(name).display().to_string()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("sememe-lm-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn saved_models_are_read_back() {
    let tokens = Tokens::new(&[vec![3, 1, 4, 1, 5, 9], vec![2, 6, 5]]);
    for name in FAMILIES {
        let model = Transformer::init(&description(name), 7, &Device::flex());
        let logits = model.logits(&tokens).unwrap_or_else(|error| panic!("{error}")).into_data();
        for (precision, close) in [(Precision::F32, 0.0), (Precision::F16, 2e-2), (Precision::Bf16, 1e-1)] {
            let folder = scratch(name);
            save(&model, &folder, precision).unwrap_or_else(|error| panic!("{name}: {error}"));
            let read = load_model(&folder.display().to_string(), &Device::flex()).unwrap_or_else(|error| panic!("{name}: {error}"));
            let got = read.logits(&tokens).unwrap_or_else(|error| panic!("{error}")).into_data();
            let scale = logits.iter::<f32>().map(f32::abs).fold(0.0, f32::max);
            let most = logits.iter::<f32>().zip(got.iter::<f32>()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(most <= close * scale, "{name} {precision:?}: {most} of {scale}");
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

#[test]
fn fresh_models_are_a_function_of_the_seed() {
    let tokens = Tokens::one(vec![3, 1, 4]);
    let logits = |seed| {
        let model = Transformer::init(&description("smollm"), seed, &Device::flex());
        model.logits(&tokens).unwrap_or_else(|error| panic!("{error}")).into_data()
    };
    assert_eq!(logits(1), logits(1));
    assert_ne!(logits(1), logits(2));
}

struct Reached<'a> {
    gradients: &'a Gradients,
    path: Vec<String>,
    missed: Vec<String>,
}

impl ModuleVisitor for Reached<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let norm = param.val().grad(self.gradients).map(|gradient| gradient.abs().sum().into_scalar::<f32>());
        if norm.is_none_or(|norm| !norm.is_finite()) {
            self.missed.push(self.path.join("."));
        }
    }
}

struct Descend<'a>(&'a Gradients, f64);

impl ModuleMapper for Descend<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let gradient = param.val().grad(self.0);
        let rate = self.1;
        param.map(|tensor| match gradient {
            Some(gradient) => Tensor::from_inner(tensor.inner() - gradient * rate).require_grad(),
            None => tensor,
        })
    }
}

/// Every parameter gets a gradient, and plain descent learns a short text by heart.
#[test]
fn every_family_can_be_trained() {
    let tokens = Tokens::new(&[vec![3, 1, 4, 1, 5, 9, 2, 6], vec![5, 3, 5, 8]]);
    for name in FAMILIES {
        let mut model = Transformer::init(&description(name), 0, &Device::flex().autodiff());
        let mut losses = Vec::new();
        for step in 0..25 {
            let loss = model.loss(&tokens).unwrap_or_else(|error| panic!("{error}"));
            losses.push(loss.clone().into_scalar::<f32>());
            let gradients = loss.backward();
            if step == 0 {
                let mut reached = Reached { gradients: &gradients, path: Vec::new(), missed: Vec::new() };
                model.visit(&mut reached);
                assert!(reached.missed.is_empty(), "{name}: {:?}", reached.missed);
            }
            model = model.map(&mut Descend(&gradients, 0.1));
        }
        assert!(losses[24] < 0.9 * losses[0], "{name}: {losses:?}");
        let nats = model.nats(&tokens).unwrap_or_else(|error| panic!("{error}")).mean();
        let loss = model.loss(&tokens).unwrap_or_else(|error| panic!("{error}")).into_scalar::<f32>();
        assert!((nats - f64::from(loss)).abs() < 1e-4, "the loss is the mean cross-entropy");
    }
}
