//! A model that runs over contexts up to the hooked layer and hands out the rows of the tokens that are kept.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use sememe_lm::{Hook, Tokenizer, Tokens, Transformer};

use super::ActivationsError;
use super::config::HarvestConfig;
use super::contexts::Context;
use super::shard::{Chunk, Precision};

/// A model that runs over contexts and hands out the rows that are kept.
pub(crate) struct Reader {
    pub model: Transformer,
    pub tokenizer: Arc<Tokenizer>,
    pub hooks: Vec<Hook>,
    pub widths: Vec<usize>,
    pub precision: Precision,
    pub keep_first: bool,
    pub keep_special: bool,
}

impl Reader {
    /// Loads the model that the config names.
    pub fn load(config: &HarvestConfig) -> Result<Self, ActivationsError> {
        let hooks = config.check()?;
        let (model, tokenizer) = sememe_lm::load(&config.model, &Device::flex())?;
        let tokenizer = Arc::new(tokenizer);
        // One token tells the widths, and whether the model has the layers.
        let widths = model.read(&Tokens::one(vec![0]), &hooks)?.iter().map(|activation| activation.dims()[2]).collect();
        let HarvestConfig { precision, keep_first, keep_special, .. } = *config;
        Ok(Self { model, tokenizer, hooks, widths, precision, keep_first, keep_special })
    }

    pub fn names(&self) -> Vec<(String, usize)> {
        self.hooks.iter().map(Hook::to_string).zip(self.widths.iter().copied()).collect()
    }

    pub fn row_bytes(&self) -> Vec<usize> {
        self.widths.iter().map(|width| width * self.precision.bytes()).collect()
    }

    /// Runs the contexts, numbered from `first`, and appends their tokens to the chunk that `to` gives for training or test;
    /// returns sums of ‖x‖ and the tokens that were left out.
    pub fn run(
        &self,
        contexts: &[Context],
        first: usize,
        train: &mut Chunk,
        test: &mut Chunk,
    ) -> Result<(Vec<f64>, u64), ActivationsError> {
        let rows: Vec<Vec<u32>> = contexts.iter().map(|context| context.ids.clone()).collect();
        let tokens = Tokens::new(&rows);
        let read = self.model.read(&tokens, &self.hooks)?;
        let mut sums = vec![0.0; self.hooks.len()];
        let mut left_out = 0;
        let values: Vec<Vec<f32>> = read.into_iter().map(values_of).collect();
        for (index, context) in contexts.iter().enumerate() {
            let number = (first + index) as u32;
            let into = if context.is_test { &mut *test } else { &mut *train };
            for (position, &id) in context.ids.iter().enumerate() {
                if position == 0 && !self.keep_first || !self.keep_special && self.tokenizer.is_special(id) {
                    left_out += 1;
                    continue;
                }
                let row = index * tokens.length() + position;
                for (hook, (values, &width)) in values.iter().zip(&self.widths).enumerate() {
                    let values = &values[row * width..(row + 1) * width];
                    let norm = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
                    self.check(values, norm, self.hooks[hook], (number, position as u32))?;
                    sums[hook] += norm;
                    self.precision.encode(values, &mut into.activations[hook]);
                }
                into.token_ids.push(id);
                into.contexts.push(number);
                into.positions.push(position as u32);
            }
        }
        Ok((sums, left_out))
    }

    fn check(&self, values: &[f32], norm: f64, hook: Hook, (context, position): (u32, u32)) -> Result<(), ActivationsError> {
        let problem = if !norm.is_finite() {
            "not finite; the model's numbers overflow on this text, which no dictionary can be trained on"
        } else if self.precision == Precision::F16 && values.iter().any(|value| value.abs() > 65504.0) {
            "larger than f16 can hold; use --precision bf16"
        } else {
            return Ok(());
        };
        Err(ActivationsError::NotFinite { hook, context, position, problem: problem.into() })
    }
}

fn values_of(activation: Tensor<3>) -> Vec<f32> {
    let data = activation.into_data();
    data.try_to_vec::<f32>().unwrap_or_else(|_| data.iter::<f32>().collect())
}
