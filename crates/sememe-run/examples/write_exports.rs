//! Random dictionaries of every kind in every format that can hold them, and what they compute, for `scripts/check_interop.py`.
//!
//!     cargo run --release --example write_exports -- DIR
//!
//! Writes `DIR/KIND/FORMAT/…` and `DIR/KIND/expected.safetensors` with `input [N, d_in]`, `output [N, d_out]`, `codes [N, n]`,
//! `decoder_norms [n]`, and `threshold [n]` where there is one; and prints what each format refuses.

use std::error::Error;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Distribution, Tensor, TensorData};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use sememe::dictionary::{
    BatchTopK, Crosscoder, Dictionary, DictionaryKind, Gated, JumpRelu, Matryoshka, PAnneal, RawWeights, Relu, TopK, Transcoder, Widths,
};
use sememe_run::interop::{Format, InteropError, export};
use serde_json::{Map, json};

const N: usize = 96;
const K: usize = 6;
const TOKENS: usize = 64;
const WIDTH: usize = 24;

/// Every kind, with the width that comes out.
fn kinds() -> Vec<(&'static str, DictionaryKind, usize)> {
    let relu = || DictionaryKind::Relu(Relu { n: N, ..Relu::default() });
    let topk = || DictionaryKind::TopK(TopK { n: N, k: K, ..TopK::default() });
    let jumprelu = || DictionaryKind::JumpRelu(JumpRelu { n: N, ..JumpRelu::default() });
    let across = |base, skip| DictionaryKind::Transcoder(Transcoder { base: Box::new(base), skip });
    vec![
        ("relu", relu(), WIDTH),
        ("p-anneal", DictionaryKind::PAnneal(PAnneal { n: N, ..PAnneal::default() }), WIDTH),
        ("topk", topk(), WIDTH),
        ("batchtopk", DictionaryKind::BatchTopK(BatchTopK { n: N, k: K, ..BatchTopK::default() }), WIDTH),
        ("matryoshka", DictionaryKind::Matryoshka(Matryoshka { n: N, k: K, ..Matryoshka::default() }), WIDTH),
        ("jumprelu", jumprelu(), WIDTH),
        ("gated", DictionaryKind::Gated(Gated { n: N, ..Gated::default() }), WIDTH),
        ("transcoder-relu", across(relu(), false), 20),
        ("transcoder-relu-skip", across(relu(), true), 20),
        ("transcoder-jumprelu", across(jumprelu(), false), 20),
        ("transcoder-jumprelu-skip", across(jumprelu(), true), 20),
        ("transcoder-topk", across(topk(), false), WIDTH),
        ("transcoder-topk-skip", across(topk(), true), WIDTH),
        ("transcoder-topk-two-widths", across(topk(), false), 20),
        ("crosscoder", DictionaryKind::Crosscoder(Crosscoder { base: Box::new(relu()), layers: 2 }), WIDTH),
    ]
}

/// Normal numbers of this standard deviation.
fn numbers(count: usize, deviation: f64) -> Vec<f32> {
    Tensor::<1>::random([count], Distribution::Normal(0.0, deviation), &Device::flex()).into_data().iter::<f32>().collect()
}

/// Weights that agree nowhere by being 0 or 1.
fn weights(widths: Widths) -> RawWeights {
    RawWeights {
        hidden: None,
        widths,
        w_enc: numbers(N * widths.input, 0.2),
        b_enc: numbers(N, 0.2),
        w_dec: numbers(N * widths.output, 0.2),
        b_dec: numbers(widths.output, 0.5),
        threshold: Some(numbers(N, 0.5).into_iter().map(f32::abs).collect()),
        r_mag: Some(numbers(N, 0.3)),
        b_mag: Some(numbers(N, 0.2)),
        w_skip: Some(numbers(widths.output * widths.input, 0.2)),
    }
}

fn write_expected(dictionary: &Dictionary, x: &Tensor<2>, path: &Path) -> Result<(), Box<dyn Error>> {
    let codes = dictionary.codes(x.clone());
    let output = dictionary.decode(&codes, x);
    let running = dictionary.memory.threshold().map(|threshold| vec![threshold as f32; N]);
    let threshold = dictionary.raw().threshold.or(running);
    let mut arrays: Vec<(&str, TensorData)> = vec![
        ("input", x.to_data()),
        ("output", output.to_data()),
        ("codes", codes.dense().to_data()),
        ("decoder_norms", dictionary.decoder_norms().to_data()),
    ];
    arrays.extend(threshold.map(|threshold| ("threshold", TensorData::new(threshold, [N]))));
    let raw: Vec<(&str, Vec<usize>, Vec<u8>)> =
        arrays.iter().map(|(name, data)| (*name, data.shape().to_vec(), data.iter::<f32>().flat_map(f32::to_le_bytes).collect())).collect();
    let views = raw
        .iter()
        .map(|(name, shape, bytes)| TensorView::new(Dtype::F32, shape.clone(), bytes).map(|view| (*name, view)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(std::fs::write(path, safetensors::serialize(views, None)?)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(std::env::args().nth(1).ok_or("give the folder to write")?);
    let metadata: Map<_, _> = [("model_name".to_string(), json!("none")), ("hook_name".to_string(), json!("none"))].into_iter().collect();
    let mut written = 0;
    Device::flex().seed(0);
    for (name, kind, output) in kinds() {
        let widths = Widths { input: WIDTH, output };
        let mut dictionary = Dictionary::from_raw(kind, weights(widths), &Device::flex())?;
        if matches!(dictionary.kind, DictionaryKind::BatchTopK(_) | DictionaryKind::Matryoshka(_)) {
            dictionary.memory.set_threshold(0.9);
        }
        let x = Tensor::from_data(TensorData::new(numbers(TOKENS * WIDTH, 1.0), [TOKENS, WIDTH]), &Device::flex());
        let folder = root.join(name);
        std::fs::create_dir_all(&folder)?;
        write_expected(&dictionary, &x, &folder.join("expected.safetensors"))?;
        for format in Format::ALL {
            match export(&dictionary, format, &folder.join(format.tag()), &metadata) {
                Ok(()) => written += 1,
                Err(error @ InteropError::Unsupported { .. }) => println!("refused: {error}"),
                Err(error) => return Err(error.into()),
            }
        }
    }
    println!("{written} dictionaries in {}", root.display());
    Ok(())
}
