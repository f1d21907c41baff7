//! Batches from shards: read ahead by a thread, in an order that is a function of (seed, epoch).
//!
//! An epoch goes through the shards in a random order and through the rows of
//! each in a random order; what is less than a batch at its end is left to the
//! next epoch. One shard is in memory at a time, and a few batches.

use std::sync::mpsc::{Receiver, sync_channel};

use burn::tensor::{Device, Tensor, TensorData};
use rand::seq::SliceRandom;
use sememe::dictionary::{Batch, BatchError, Batches};
use sememe_truth::random::stream;

use super::shard::Chunk;
use super::{Activations, ActivationsError};

/// Which hooks the encoder reads and which are reconstructed, each with its scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Hooks {
    /// Index in the shards and factor; activations of several stand side by side.
    pub input: Vec<(usize, f64)>,
    /// The same of the target; empty where it is the input.
    pub target: Vec<(usize, f64)>,
}

/// A batch as numbers: input, and target where it is another.
type Numbers = (Vec<f32>, Option<Vec<f32>>);

/// Batches that are ready before they are asked for.
const READY: usize = 3;

/// Batches of a folder of activations.
pub struct ShardBatches {
    source: Activations,
    hooks: Hooks,
    batch: usize,
    seed: u64,
    device: Device,
    /// The thread's batches and the step of the next.
    reading: Option<(Receiver<Result<Numbers, String>>, usize)>,
}

impl ShardBatches {
    /// Batches of `batch` tokens.
    ///
    /// # Errors
    /// Fewer tokens than a batch.
    pub fn new(source: Activations, hooks: Hooks, batch: usize, seed: u64, device: Device) -> Result<Self, ActivationsError> {
        let tokens = source.manifest.train_tokens();
        if batch == 0 || tokens < batch {
            let message =
                format!("{tokens} tokens to train on are fewer than a batch of {batch}; lower training.batch_tokens or harvest more");
            return Err(ActivationsError::Mismatch { path: source.path, message });
        }
        Ok(Self { source, hooks, batch, seed, device, reading: None })
    }

    fn widths(source: &Activations, hooks: &[(usize, f64)]) -> usize {
        hooks.iter().map(|(hook, _)| source.manifest.hooks[*hook].width).sum()
    }

    /// The widths of input and target.
    pub fn width(&self) -> (usize, usize) {
        let input = Self::widths(&self.source, &self.hooks.input);
        (input, if self.hooks.target.is_empty() { input } else { Self::widths(&self.source, &self.hooks.target) })
    }

    fn start(&self, step: usize) -> Receiver<Result<Numbers, String>> {
        let (send, receive) = sync_channel(READY);
        let mut order = Order { source: self.source.clone(), hooks: self.hooks.clone(), batch: self.batch, seed: self.seed };
        std::thread::spawn(move || {
            // It ends when nobody listens any more.
            let sent = order.batches_from(step, &mut |numbers| send.send(Ok(numbers)).is_ok());
            if let Err(error) = sent {
                let _ = send.send(Err(error.to_string()));
            }
        });
        receive
    }
}

impl Batches for ShardBatches {
    fn next(&mut self, step: usize) -> Result<Batch, BatchError> {
        let receiver = match self.reading.take() {
            Some((receiver, next)) if next == step => receiver,
            _ => self.start(step),
        };
        let failed = |message: String| BatchError { step, message };
        let (input, target) = receiver.recv().map_err(|_| failed("reading stopped".into()))?.map_err(failed)?;
        self.reading = Some((receiver, step + 1));
        let (input_width, target_width) = self.width();
        let tensor = |values: Vec<f32>, width: usize| Tensor::<2>::from_data(TensorData::new(values, [self.batch, width]), &self.device);
        let input = tensor(input, input_width);
        let target = target.map_or_else(|| input.clone(), |target| tensor(target, target_width));
        Ok(Batch { input, target })
    }
}

/// The order of the tokens, and the thread's work.
struct Order {
    source: Activations,
    hooks: Hooks,
    batch: usize,
    seed: u64,
}

impl Order {
    /// Hands out the batches from `step` on until `give` says that it is enough.
    fn batches_from(&mut self, step: usize, give: &mut dyn FnMut(Numbers) -> bool) -> Result<(), ActivationsError> {
        let per_epoch = self.source.manifest.train_tokens() / self.batch;
        let (mut epoch, mut skip) = (step / per_epoch, (step % per_epoch) * self.batch);
        loop {
            let mut left = per_epoch * self.batch - skip;
            let mut shards: Vec<usize> = (0..self.source.manifest.train.len()).collect();
            shards.shuffle(&mut stream(self.seed, &format!("activations/epoch/{epoch}")));
            let mut numbers = self.empty();
            let mut rows = 0;
            for shard in shards {
                let part = self.source.manifest.train[shard].clone();
                if skip >= part.count {
                    skip -= part.count;
                    continue;
                }
                let chunk = self.source.shard(&part)?;
                let mut order: Vec<usize> = (0..part.count).collect();
                order.shuffle(&mut stream(self.seed, &format!("activations/epoch/{epoch}/shard/{shard}")));
                for &row in order[skip..].iter().take(left) {
                    self.append(&chunk, row, rows, &mut numbers);
                    rows += 1;
                    if rows == self.batch {
                        rows = 0;
                        if !give(std::mem::replace(&mut numbers, self.empty())) {
                            return Ok(());
                        }
                    }
                }
                left -= (part.count - skip).min(left);
                skip = 0;
            }
            epoch += 1;
            skip = 0;
        }
    }

    fn empty(&self) -> Numbers {
        let zeros = |hooks: &[(usize, f64)]| vec![0.0; self.batch * ShardBatches::widths(&self.source, hooks)];
        (zeros(&self.hooks.input), (!self.hooks.target.is_empty()).then(|| zeros(&self.hooks.target)))
    }

    fn append(&self, chunk: &Chunk, row: usize, to: usize, (input, target): &mut Numbers) {
        fill_row(&self.source, chunk, row, &self.hooks.input, to, input);
        if let Some(target) = target {
            fill_row(&self.source, chunk, row, &self.hooks.target, to, target);
        }
    }
}

/// Writes the activations of a token at some hooks, side by side and scaled, as row `to` of `out`.
pub(crate) fn fill_row(source: &Activations, chunk: &Chunk, row: usize, hooks: &[(usize, f64)], to: usize, out: &mut [f32]) {
    let width = ShardBatches::widths(source, hooks);
    let mut at = to * width;
    for &(hook, scale) in hooks {
        let own = source.manifest.hooks[hook].width;
        chunk.row(hook, row, source.manifest.precision, scale as f32, &mut out[at..at + own]);
        at += own;
    }
}
