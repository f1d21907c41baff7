//! The layers of real models as pairs see them: they compute what the model does, and the closed forms are its derivatives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use sememe::pair::{attention_jacobian, blocks};
use sememe_kernels::Pattern;
use sememe_lm::{Hook, Tokens, Transformer};
use sememe_run::pair::{attention_of, layer_between};

fn numbers<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    tensor.to_data().iter::<f32>().map(f64::from).collect()
}

/// The pocket model and, where it was fetched, SmolLM2 with a layer in its middle.
fn models() -> Vec<(Transformer, usize)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let load =
        |path: PathBuf| sememe_lm::load_model(&path.display().to_string(), &Device::flex()).unwrap_or_else(|error| panic!("{error}"));
    let mut models = vec![(load(root.join("assets/pocket")), 2)];
    let real = root.join("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if real.is_file() {
        models.push((load(real), 15));
    } else {
        assert!(std::env::var_os("SEMEME_NEEDS_MODELS").is_none(), "{}: not there", real.display());
    }
    models
}

fn read(model: &Transformer, layer: usize, places: [&str; 2]) -> ([Hook; 2], [Tensor<2>; 2]) {
    let hooks = places.map(|place| format!("{layer}.{place}").parse::<Hook>().unwrap_or_else(|error| panic!("{error}")));
    let ids: Vec<u32> = (0..9).map(|token| 20 + 37 * token % 400).collect();
    let found = model.read(&Tokens::one(ids), &hooks).unwrap_or_else(|error| panic!("{error}"));
    let flat = |tensor: &Tensor<3>| {
        let [_, tokens, width] = tensor.dims();
        // The first token is an attention sink, whose numbers are of another size.
        tensor.clone().reshape([tokens, width]).narrow(0, 1, tokens - 1)
    };
    (hooks, [flat(&found[0]), flat(&found[1])])
}

fn patterns(tokens: usize) -> (Arc<Pattern>, Arc<Pattern>) {
    let of = |k: usize, n: usize| {
        let latents = (0..tokens).flat_map(|token| {
            let mut row: Vec<u32> = (0..k).map(|e| ((token * 5 + e * 3) % n) as u32).collect();
            row.sort_unstable();
            row
        });
        Arc::new(Pattern::new((0..=tokens).map(|token| (token * k) as u32).collect(), latents.collect(), n))
    };
    (of(3, 10), of(4, 13))
}

fn close(found: &[f64], expected: &[f64], share: f64, what: &str) {
    let scale = expected.iter().map(|value| value * value).sum::<f64>().sqrt();
    let missed = found.iter().zip(expected).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
    assert!(missed < share * scale, "{what}: {missed} of {scale}");
}

fn random(shape: [usize; 2], scale: f64) -> Tensor<2> {
    Tensor::random(shape, Distribution::Normal(0.0, scale), &Device::flex())
}

#[test]
fn layers_compute_what_the_model_does_and_blocks_are_their_derivatives() {
    Device::flex().seed(1);
    for (model, layer) in models() {
        for places in [["mlp_in", "mlp_out"], ["resid_mid", "mlp_out"], ["resid_mid", "resid_post"]] {
            let (hooks, [x, y]) = read(&model, layer, places);
            let what = format!("{} to {}", hooks[0], hooks[1]);
            let map = layer_between(&model, hooks[0], hooks[1], (1.0, 1.0)).unwrap_or_else(|error| panic!("{error}"));
            close(&numbers(&map.apply(x.clone())), &numbers(&y), 1e-4, &what);
            let [tokens, d] = x.dims();
            let size = (numbers(&x).iter().map(|v| v * v).sum::<f64>() / tokens as f64).sqrt();
            let (decoder, encoder) = (random([10, d], 1.0 / (d as f64).sqrt()), random([13, d], 1.0 / (d as f64).sqrt()));
            let (active_x, active_y) = patterns(tokens);
            let found = blocks(&map, x.clone(), decoder.clone(), encoder.clone(), &active_x, &active_y);
            let step = 3e-3 * size;
            let mut expected = vec![0.0; found.starts[tokens]];
            for token in 0..tokens {
                for (column, &a) in active_x.row(token).iter().enumerate() {
                    let direction = decoder.clone().narrow(0, a as usize, 1) * step;
                    let here = x.clone().narrow(0, token, 1);
                    let moved = map.apply(here.clone() + direction.clone()) - map.apply(here - direction);
                    let seen = numbers(&(moved.matmul(encoder.clone().transpose()) / (2.0 * step)));
                    for (row, &b) in active_y.row(token).iter().enumerate() {
                        expected[found.starts[token] + row * 3 + column] = seen[b as usize];
                    }
                }
            }
            close(&numbers(&found.entries), &expected, 5e-3, &what);
        }
    }
}

#[test]
fn attention_of_real_models() {
    Device::flex().seed(2);
    for (model, layer) in models() {
        let hooks = ["resid_pre", "attn_out"].map(|place| format!("{layer}.{place}").parse::<Hook>().unwrap_or_else(|e| panic!("{e}")));
        let ids: Vec<u32> = (0..7).map(|token| 20 + 37 * token % 400).collect();
        let read = model.read(&Tokens::one(ids), &hooks).unwrap_or_else(|error| panic!("{error}"));
        let flat = |tensor: &Tensor<3>| tensor.clone().reshape([tensor.dims()[1], tensor.dims()[2]]);
        let (x, y) = (flat(&read[0]), flat(&read[1]));
        let attention = attention_of(&model, layer).unwrap_or_else(|error| panic!("{error}"));
        close(&numbers(&attention.apply(&x)), &numbers(&y), 1e-4, "attention");
        let [tokens, d] = x.dims();
        let (decoder, encoder) = (random([10, d], 1.0 / (d as f64).sqrt()), random([13, d], 1.0 / (d as f64).sqrt()));
        let (active_x, active_y) = patterns(tokens);
        let found = attention_jacobian(&attention, &x, (&decoder, &active_x), (&encoder, &active_y), false);
        let (rows, columns) = (active_y.row_of_entries(), active_x.row_of_entries());
        let mut expected = vec![0.0; rows.len() * columns.len()];
        for (column, (&s, &a)) in columns.iter().zip(active_x.latents()).enumerate() {
            let own: f64 = numbers(&x.clone().narrow(0, s as usize, 1)).iter().map(|v| v * v).sum::<f64>().sqrt();
            let step = 3e-3 * own;
            let unit: Vec<f32> = (0..tokens).map(|t| if t == s as usize { step as f32 } else { 0.0 }).collect();
            let unit = Tensor::<2>::from_data(TensorData::new(unit, [tokens, 1]), &Device::flex());
            let moved = unit * decoder.clone().narrow(0, a as usize, 1);
            let change = attention.apply(&(x.clone() + moved.clone())) - attention.apply(&(x.clone() - moved));
            let seen = numbers(&(change.matmul(encoder.clone().transpose()) / (2.0 * step)));
            for (row, (&t, &b)) in rows.iter().zip(active_y.latents()).enumerate() {
                expected[row * columns.len() + column] = seen[t as usize * 13 + b as usize];
            }
        }
        close(&numbers(&found), &expected, 1e-2, "attention's Jacobian");
    }
}

#[test]
fn hooks_without_an_mlp_between_them_are_refused() {
    let (model, _) = models().swap_remove(0);
    for (from, to, reason) in [
        ("0.mlp_in", "1.mlp_out", "different layers"),
        ("0.resid_pre", "0.attn_out", "something else"),
        ("0.mlp_out", "0.mlp_in", "something else"),
        ("9.mlp_in", "9.mlp_out", "9.mlp_in"),
    ] {
        let hook = |name: &str| name.parse::<Hook>().unwrap_or_else(|error| panic!("{error}"));
        let error = layer_between(&model, hook(from), hook(to), (1.0, 1.0)).map(|_| ()).expect_err("refused").to_string();
        assert!(error.contains(reason) && !error.contains('\n'), "{error}");
    }
}
