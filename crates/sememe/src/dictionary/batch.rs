//! Where batches of activations come from: a trait that training asks, step by step.

use burn::tensor::Tensor;
use thiserror::Error;

/// A batch of N tokens.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What the encoder sees: `[N, d_in]`.
    pub input: Tensor<2>,
    /// What is reconstructed: `[N, d_out]`; the input itself for an autoencoder.
    pub target: Tensor<2>,
}

impl From<Tensor<2>> for Batch {
    fn from(x: Tensor<2>) -> Self {
        Self { input: x.clone(), target: x }
    }
}

/// Why there is no next batch.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("batch of step {step}: {message}")]
pub struct BatchError {
    /// The step, from 0.
    pub step: usize,
    /// What, where and what to do.
    pub message: String,
}

/// A source of batches. It is asked in order of the steps, and waits for nothing: reading ahead is its own affair.
pub trait Batches {
    /// The batch of `step`, a function of the step alone, so that a resumed run sees the same data.
    ///
    /// # Errors
    /// What failed, in one line.
    fn next(&mut self, step: usize) -> Result<Batch, BatchError>;
}

impl<F: FnMut(usize) -> Result<Batch, BatchError>> Batches for F {
    fn next(&mut self, step: usize) -> Result<Batch, BatchError> {
        self(step)
    }
}

/// A matrix of activations in memory, in batches of consecutive rows, again and again.
#[derive(Clone, Debug)]
pub struct Repeat {
    /// `[tokens, d]`, in an order that is as good as random.
    pub data: Tensor<2>,
    /// N.
    pub batch: usize,
}

impl Batches for Repeat {
    fn next(&mut self, step: usize) -> Result<Batch, BatchError> {
        let tokens = self.data.dims()[0];
        let batch = self.batch.min(tokens);
        if batch == 0 {
            return Err(BatchError { step, message: "there are no tokens".into() });
        }
        let number = step % (tokens / batch);
        Ok(self.data.clone().narrow(0, number * batch, batch).into())
    }
}
