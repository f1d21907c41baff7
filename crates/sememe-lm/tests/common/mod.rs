//! Fixtures and comparisons that several tests share.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::Tensor;
use safetensors::{Dtype, SafeTensors};
use sememe_lm::Tokens;

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// What PyTorch made of a checkpoint.
pub struct Expected {
    pub tokens: Tokens,
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

pub fn expected(name: &str) -> Expected {
    let bytes = std::fs::read(fixture(name)).expect("the fixture is part of the repository");
    let file = SafeTensors::deserialize(&bytes).expect("the fixture is whole");
    let ints = |name: &str| -> Vec<u32> {
        file.tensor(name).expect(name).data().chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let (ids, lengths) = (ints("ids"), ints("lengths"));
    let width = ids.len() / lengths.len();
    let rows: Vec<Vec<u32>> = ids.chunks(width).zip(&lengths).map(|(row, &own)| row[..own as usize].to_vec()).collect();
    let floats = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        (view.dtype() == Dtype::F32).then(|| (name, (view.shape().to_vec(), values)))
    };
    Expected { tokens: Tokens::new(&rows), tensors: file.tensors().into_iter().filter_map(floats).collect() }
}

/// Largest difference over the tokens (padding left out), as a share of the expected values' largest.
pub fn difference(got: Tensor<3>, (shape, expected): &(Vec<usize>, Vec<f32>), tokens: &Tokens) -> f32 {
    assert_eq!(got.dims().to_vec(), *shape);
    let got: Vec<f32> = got.into_data().iter::<f32>().collect();
    let [length, width] = [shape[1], shape[2]];
    let is_token = |at: usize| (at / width) % length < tokens.lengths()[at / width / length];
    let (mut most, mut scale) = (0.0_f32, 0.0_f32);
    for at in (0..got.len()).filter(|&at| is_token(at)) {
        assert!(got[at].is_finite());
        most = most.max((got[at] - expected[at]).abs());
        scale = scale.max(expected[at].abs());
    }
    most / scale
}
