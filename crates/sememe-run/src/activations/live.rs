//! Batches straight from a model, with no shards in between: harvested into a shuffle buffer while training goes on.
//!
//! Whenever less than a batch is ready, the buffer is filled up and permuted,
//! and half of it may leave, batch by batch. At the end of the text it begins
//! again. A buffer that was saved at a step goes on from there; without one
//! the stream is repeated from its beginning, which gives the same batches.

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use sememe::dictionary::{Batch, BatchError, Batches};
use serde::{Deserialize, Serialize};

use super::batches::fill_row;
use super::buffer::Buffer;
use super::contexts::Contexts;
use super::reader::Reader;
use super::shard::Chunk;
use super::{Activations, ActivationsError, HarvestConfig, Hooks, at};
use crate::{atomic, text};

/// Batches of a model's activations.
pub struct LiveBatches {
    config: HarvestConfig,
    reader: Reader,
    /// Widths and scales, from the held-out activations that were harvested before.
    source: Activations,
    hooks: Hooks,
    batch: usize,
    device: Device,
    contexts: Contexts,
    buffer: Buffer,
    state: State,
}

/// What the next batch depends on beside the buffer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    step: usize,
    /// Rows at the buffer's end that were permuted and may leave.
    ready: usize,
    epoch: usize,
    emissions: usize,
    place: (usize, usize),
    /// Contexts that were run.
    ran: usize,
}

const BUFFER: &str = "live.safetensors";
const STATE: &str = "live.json";

impl LiveBatches {
    /// Batches of `batch` tokens of the text that is not held out.
    ///
    /// # Errors
    /// A model or text that is refused, or a buffer that holds fewer than two batches.
    pub fn new(config: &HarvestConfig, source: Activations, hooks: Hooks, batch: usize, device: Device) -> Result<Self, ActivationsError> {
        let reader = Reader::load(config)?;
        let contexts = Self::contexts(config, &reader)?;
        let buffer = Buffer::new(config.buffer_mib << 20, reader.row_bytes(), config.seed);
        if buffer.capacity < 2 * batch {
            return Err(ActivationsError::Setting {
                key: "buffer_mib",
                got: config.buffer_mib.to_string(),
                expected: format!("it holds {} tokens; give room for at least two batches of {batch}", buffer.capacity),
            });
        }
        Ok(Self { config: config.clone(), reader, source, hooks, batch, device, contexts, buffer, state: State::default() })
    }

    fn contexts(config: &HarvestConfig, reader: &Reader) -> Result<Contexts, ActivationsError> {
        Contexts::new(text::open(&config.text, config.text_key.as_deref())?, &reader.tokenizer, config)
    }

    /// Fills the buffer up and permutes it.
    fn fill(&mut self) -> Result<(), ActivationsError> {
        let mut ran_in_epoch = self.state.place != (0, 0);
        while !self.buffer.is_full() {
            let train = self.contexts.by_ref().filter(|context| context.as_ref().map_or(true, |context| !context.is_test));
            let contexts = train.take(self.config.batch_contexts).collect::<Result<Vec<_>, _>>()?;
            if contexts.is_empty() {
                if !ran_in_epoch {
                    return Err(ActivationsError::Empty("the text gave no tokens; give longer text".into()));
                }
                self.contexts = Self::contexts(&self.config, &self.reader)?;
                self.state.epoch += 1;
                ran_in_epoch = false;
                continue;
            }
            ran_in_epoch = true;
            self.reader.run(&contexts, self.state.ran, &mut self.buffer.chunk, &mut Chunk::new(self.reader.hooks.len()))?;
            self.state.ran += contexts.len();
        }
        let from = self.buffer.permute(false);
        self.state.ready = self.buffer.chunk.len() - from;
        self.state.place = self.contexts.place();
        Ok(())
    }

    fn advance(&mut self) -> Result<usize, ActivationsError> {
        if self.state.ready < self.batch {
            self.fill()?;
        }
        self.state.ready -= self.batch;
        self.state.step += 1;
        Ok(self.buffer.chunk.len() - self.batch)
    }

    /// Saves the buffer into `folder`, so that a resumed run need not repeat the harvest.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn save(&mut self, folder: &Path) -> Result<(), ActivationsError> {
        at(folder, std::fs::create_dir_all(folder))?;
        self.state.emissions = self.buffer.emissions;
        let chunk = &self.buffer.chunk;
        chunk.write((0, chunk.len()), &self.reader.names(), self.config.precision, &folder.join(BUFFER))?;
        let path = folder.join(STATE);
        at(&path, serde_json::to_vec(&self.state).map_err(std::io::Error::other).and_then(|bytes| atomic::write(&path, &bytes)))
    }

    /// Takes the buffer that was saved in `folder`, if it is that of `step`.
    ///
    /// # Errors
    /// Files that are damaged.
    pub fn restore(&mut self, folder: &Path, step: usize) -> Result<bool, ActivationsError> {
        let path = folder.join(STATE);
        if !path.is_file() {
            return Ok(false);
        }
        let damaged = |error: serde_json::Error| ActivationsError::Damaged { path: path.clone(), message: error.to_string() };
        let state: State = serde_json::from_slice(&at(&path, std::fs::read(&path))?).map_err(damaged)?;
        if state.step != step {
            return Ok(false);
        }
        self.buffer.chunk = Chunk::read(&self.reader.names(), self.config.precision, &folder.join(BUFFER))?;
        self.buffer.emissions = state.emissions;
        self.contexts = Self::contexts(&self.config, &self.reader)?;
        self.contexts.go_to(state.place)?;
        self.state = state;
        Ok(true)
    }

    fn rows(&mut self, step: usize) -> Result<Batch, ActivationsError> {
        if step < self.state.step {
            self.contexts = Self::contexts(&self.config, &self.reader)?;
            self.buffer = Buffer::new(self.config.buffer_mib << 20, self.reader.row_bytes(), self.config.seed);
            self.state = State::default();
        }
        while self.state.step < step {
            let from = self.advance()?;
            self.buffer.leave(from);
        }
        let from = self.advance()?;
        let tensor = |hooks: &[(usize, f64)]| {
            let width: usize = hooks.iter().map(|(hook, _)| self.reader.widths[*hook]).sum();
            let mut values = vec![0.0; self.batch * width];
            (0..self.batch).for_each(|row| fill_row(&self.source, &self.buffer.chunk, from + row, hooks, row, &mut values));
            Tensor::<2>::from_data(TensorData::new(values, [self.batch, width]), &self.device)
        };
        let input = tensor(&self.hooks.input);
        let target = if self.hooks.target.is_empty() { input.clone() } else { tensor(&self.hooks.target) };
        self.buffer.leave(from);
        Ok(Batch { input, target })
    }
}

impl Batches for LiveBatches {
    fn next(&mut self, step: usize) -> Result<Batch, BatchError> {
        self.rows(step).map_err(|error| BatchError { step, message: error.to_string() })
    }
}
