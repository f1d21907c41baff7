//! What a dictionary remembers from step to step beside its weights: how long each latent has been silent, and running means.

use burn::tensor::{Device, Tensor, TensorData};
use sememe_kernels::Pattern;

use crate::train::NamedTensors;

/// Counts above this are not exact in the single precision in which they are saved.
pub const MOST_TOKENS: usize = 1 << 24;

/// State of training that is no parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Tokens since each latent was last active, up to [`MOST_TOKENS`]: `[n]`.
    pub silent_tokens: Vec<f32>,
    /// `Σ (1−β) βᵗ⁻ˢ s`, the sum behind the running mean of the smallest active value.
    smallest_sum: f64,
    /// `1 − βᵗ`, the weight behind it.
    smallest_weight: f64,
    /// A factor on the sparsity penalty that a member may adapt.
    pub penalty_scale: f64,
}

impl Memory {
    /// Of `n` latents, before the first step.
    pub fn new(n: usize) -> Self {
        Self { silent_tokens: vec![0.0; n], smallest_sum: 0.0, smallest_weight: 0.0, penalty_scale: 1.0 }
    }

    /// Takes in a batch: who was active.
    pub fn observe(&mut self, active: &Pattern) {
        let tokens = active.rows() as f32;
        for silent in &mut self.silent_tokens {
            *silent = (*silent + tokens).min(MOST_TOKENS as f32);
        }
        for &latent in active.latents() {
            self.silent_tokens[latent as usize] = 0.0;
        }
    }

    /// The latents that were silent for at least `tokens`, rising.
    pub fn dead(&self, tokens: usize) -> Vec<u32> {
        let silent = self.silent_tokens.iter().zip(0..).filter(|(silent, _)| **silent >= tokens as f32);
        silent.map(|(_, latent)| latent).collect()
    }

    /// Takes in the smallest active value of a batch; the running mean forgets by `momentum` a step.
    pub fn observe_smallest(&mut self, smallest: f64, momentum: f64) {
        self.smallest_sum = momentum * self.smallest_sum + (1.0 - momentum) * smallest;
        self.smallest_weight = momentum * self.smallest_weight + (1.0 - momentum);
    }

    /// The running mean of the smallest active value, without bias to 0; `None` before the first batch.
    pub fn threshold(&self) -> Option<f64> {
        (self.smallest_weight > 0.0).then(|| self.smallest_sum / self.smallest_weight)
    }

    /// Sets the threshold, as read from a file.
    pub fn set_threshold(&mut self, threshold: f64) {
        (self.smallest_sum, self.smallest_weight) = (threshold, 1.0);
    }

    /// Divides the threshold by `scale`, as the biases are when a scale is folded in.
    pub(super) fn divide_threshold(&mut self, scale: f64) {
        self.smallest_sum /= scale;
    }

    /// As named tensors, for a checkpoint.
    pub fn state(&self, device: &Device) -> NamedTensors {
        let vector = |values: Vec<f32>| {
            let count = values.len();
            (Tensor::<1>::from_data(TensorData::new(values, [count]), device), [count].into())
        };
        // A double is split in two single numbers, so that a resumed run has the same bits.
        let numbers = [self.smallest_sum, self.smallest_weight, self.penalty_scale].into_iter().flat_map(split).collect();
        [("memory/silent_tokens".to_string(), vector(self.silent_tokens.clone())), ("memory/numbers".to_string(), vector(numbers))].into()
    }

    /// The memory that [`Memory::state`] gave.
    ///
    /// # Errors
    /// One line that names what is missing or of another size.
    pub fn restore(n: usize, mut state: NamedTensors) -> Result<Self, String> {
        let mut take = |name: &str, count: usize| match state.remove(name) {
            Some((tensor, _)) if tensor.dims()[0] == count => Ok(tensor.into_data().iter::<f32>().collect::<Vec<_>>()),
            Some((tensor, _)) => Err(format!("tensor `{name}` has {} numbers, expected {count}", tensor.dims()[0])),
            None => Err(format!("tensor `{name}` is missing")),
        };
        let silent_tokens = take("memory/silent_tokens", n)?;
        let numbers = take("memory/numbers", 9)?;
        let joined: Vec<f64> = numbers.chunks(3).map(|parts| parts.iter().map(|&part| f64::from(part)).sum()).collect();
        Ok(Self { silent_tokens, smallest_sum: joined[0], smallest_weight: joined[1], penalty_scale: joined[2] })
    }
}

/// Three single numbers whose exact sum is `value` (of ordinary size).
fn split(value: f64) -> [f32; 3] {
    let high = value as f32;
    let middle = (value - f64::from(high)) as f32;
    let low = (value - f64::from(high) - f64::from(middle)) as f32;
    [high, middle, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_by_hand() {
        let mut memory = Memory::new(3);
        memory.observe(&Pattern::new(vec![0, 1, 2], vec![0, 2], 3));
        memory.observe(&Pattern::new(vec![0, 1, 1, 1], vec![2], 3));
        assert_eq!(memory.silent_tokens, [3.0, 5.0, 0.0]);
        assert_eq!(memory.dead(3), [0, 1]);
        assert_eq!(memory.dead(4), [1]);
    }

    #[test]
    fn the_threshold_is_a_mean_from_the_first_batch_on() {
        let mut memory = Memory::new(1);
        assert_eq!(memory.threshold(), None);
        memory.observe_smallest(2.0, 0.9);
        assert!((memory.threshold().unwrap_or(0.0) - 2.0).abs() < 1e-12);
        memory.observe_smallest(4.0, 0.9);
        let expected = (0.1 * 0.9 * 2.0 + 0.1 * 4.0) / 0.19;
        assert!((memory.threshold().unwrap_or(0.0) - expected).abs() < 1e-12);
    }

    #[test]
    fn saved_and_restored_to_the_bit() {
        let mut memory = Memory::new(4);
        memory.observe(&Pattern::new(vec![0, 2], vec![1, 3], 4));
        memory.observe_smallest(0.123_456_789_012_345, 0.999);
        memory.penalty_scale = 1.0 / 3.0;
        let device = Device::flex();
        assert_eq!(Memory::restore(4, memory.state(&device)), Ok(memory.clone()));
        assert!(Memory::restore(5, memory.state(&device)).is_err());
    }
}
