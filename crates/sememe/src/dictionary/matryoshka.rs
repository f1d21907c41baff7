//! Matryoshka: nested prefixes of the latents each reconstruct the input, so that the first latents stay general.
//!
//! With prefixes `n_1 < … < n_G = n` and BatchTopK codes z,
//! `x̂_g = z_{1…n_g} W_dec,{1…n_g} + b_dec`; loss `mean_g mean_N Σ_d (x − x̂_g)² + AuxK`
//! (AuxK on the residual of the whole dictionary). All prefixes are decoded
//! at once: each token's latents are cut into G rows, which are then summed up.
//!
//! # Source
//! Bussmann et al. 2025, arXiv 2503.17547, §3.

use std::sync::Arc;

use burn::tensor::Tensor;
use sememe_kernels::{Choice, sparse_decode};
use sememe_truth::catalogue::Member;
use serde::{Deserialize, Serialize};

use super::batchtopk::{codes_by_threshold, smallest};
use super::{
    AuxK, Batch, Codes, DEAD_AFTER_TOKENS, Dictionary, DictionaryConfig, DictionaryError, Draft, Form, Widths, check_common,
    check_fraction, check_k,
};
use crate::train::{Loss, StepContext};

/// Config of the Matryoshka dictionary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Matryoshka {
    /// n, the number of latents.
    pub n: usize,
    /// Active latents a token, on average.
    pub k: usize,
    /// `n_g/n`, rising, the last being 1.
    pub prefix_fractions: Vec<f64>,
    /// What revives dead latents.
    pub auxk: AuxK,
    /// T: tokens after which a silent latent is dead.
    pub dead_after_tokens: usize,
    /// How much of the threshold's running mean a step keeps.
    pub threshold_momentum: f64,
}

impl Default for Matryoshka {
    fn default() -> Self {
        Self {
            n: 16_384,
            k: 32,
            prefix_fractions: vec![1.0 / 32.0, 3.0 / 32.0, 7.0 / 32.0, 15.0 / 32.0, 1.0],
            auxk: AuxK::default(),
            dead_after_tokens: DEAD_AFTER_TOKENS,
            threshold_momentum: 0.999,
        }
    }
}

impl Member for Matryoshka {
    const ABOUT: &'static str = "BatchTopK whose nested prefixes of latents each reconstruct the input";
    const SOURCE: &'static str = "Bussmann et al. 2025, arXiv 2503.17547";
}

impl Matryoshka {
    /// n_1 … n_G.
    pub fn prefixes(&self) -> Vec<usize> {
        self.prefix_fractions.iter().map(|fraction| (fraction * self.n as f64).round() as usize).collect()
    }
}

impl DictionaryConfig for Matryoshka {
    fn n(&self) -> usize {
        self.n
    }

    fn check(&self, widths: Widths) -> Result<(), DictionaryError> {
        check_common("matryoshka", self.n, self.dead_after_tokens, widths)?;
        check_k("matryoshka", self.k, self.n)?;
        check_fraction("matryoshka", "threshold_momentum", self.threshold_momentum)?;
        let prefixes = self.prefixes();
        let rising = prefixes.windows(2).all(|pair| pair[0] < pair[1]);
        if !rising || prefixes.first().is_none_or(|&first| first == 0) || prefixes.last() != Some(&self.n) {
            return Err(DictionaryError {
                dictionary: "matryoshka",
                key: "prefix_fractions",
                got: format!("{:?}", self.prefix_fractions),
                expected: "give rising fractions of n, each adding a latent, the last being 1".into(),
            });
        }
        self.auxk.check("matryoshka")
    }

    fn form(&self) -> Form {
        Form::default()
    }

    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes {
        codes_by_threshold(dictionary, x, self.k)
    }

    fn draft(&self, dictionary: &Dictionary, batch: &Batch, _at: &StepContext) -> Draft {
        let codes = dictionary.choose(batch.input.clone(), &Choice::WholeBatch(self.k));
        let Codes::Sparse { values, pattern } = &codes else { unreachable!("a choice gives sparse codes") };
        let ([rows, width], groups) = (batch.target.dims(), self.prefix_fractions.len());
        let cut = Arc::new(pattern.cut(&self.prefixes()));
        let parts = sparse_decode(values.clone(), dictionary.w_dec.val(), &cut).reshape([rows, groups, width]);
        let base = dictionary.decode(&none_active(&batch.target, dictionary.n()), &batch.input);
        let outputs = parts.cumsum(1) + base.unsqueeze_dim::<3>(1);
        let errors = batch.target.clone().unsqueeze_dim::<3>(1) - outputs.clone();
        let value = (errors.clone() * errors).sum() / (rows * groups) as f64;
        let mut losses = vec![Loss { name: "reconstruction", value, weight: 1.0 }];
        let output = outputs.narrow(1, groups - 1, 1).reshape([rows, width]);
        losses.extend(self.auxk.loss(dictionary, batch, &output, self.dead_after_tokens));
        let smallest = smallest(&codes);
        Draft { losses, output, codes, smallest, penalty_scale: None }
    }

    fn dead_after_tokens(&self) -> usize {
        self.dead_after_tokens
    }

    fn threshold_momentum(&self) -> f64 {
        self.threshold_momentum
    }
}

/// Codes of as many rows as `like` in which no latent is active.
fn none_active(like: &Tensor<2>, n: usize) -> Codes {
    let pattern = Arc::new(sememe_kernels::Pattern::new(vec![0; like.dims()[0] + 1], Vec::new(), n));
    Codes::Sparse { values: Tensor::zeros([0], &like.device()), pattern }
}
