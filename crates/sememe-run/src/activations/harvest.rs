//! Harvest: text through a model up to the hooked layer, tokens through a shuffle buffer, into shards.
//!
//! Batches of contexts are formed in the order of the text, so a harvest that
//! was stopped and resumed writes the same bits: what it has to remember is
//! its place in the text and the buffer, which is saved when it is stopped and
//! every few minutes. Everything between two saves is written again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::buffer::Buffer;
use super::config::HarvestConfig;
use super::contexts::{Context, Contexts};
use super::manifest::{Activations, HookInfo, LeftOut, MANIFEST, Manifest, Part, Resume, write_contexts};
use super::reader::Reader;
use super::shard::Chunk;
use super::{ActivationsError, at};
use crate::observe::{Interrupt, Progress, Verbosity};
use crate::text;

/// How a harvest ended.
#[derive(Debug)]
pub enum Harvested {
    /// Everything is there.
    Finished(Box<Activations>),
    /// It was interrupted with so many tokens written, and can be resumed.
    Interrupted {
        /// Tokens in finished shards.
        tokens: usize,
    },
}

/// Time between two saves of the buffer.
const BETWEEN_SAVES: Duration = Duration::from_secs(300);
const BUFFER: &str = "buffer.safetensors";

/// Everything that one harvest carries along.
struct Harvest<'a> {
    config: &'a HarvestConfig,
    reader: Reader,
    path: &'a Path,
    manifest: Manifest,
    names: Vec<(String, usize)>,
    buffer: Buffer,
    test: Chunk,
    new_contexts: Vec<Vec<u32>>,
    norm_sums: Vec<f64>,
    kept: u64,
}

/// Runs the text through the model and writes shards into `path`.
///
/// # Errors
/// Settings, model or text that are refused; a folder that holds something else; numbers that are not finite.
pub fn harvest(
    config: &HarvestConfig,
    path: &Path,
    (resume, overwrite): (bool, bool),
    verbosity: Verbosity,
    interrupt: &Interrupt,
) -> Result<Harvested, ActivationsError> {
    config.check()?;
    let documents = text::open(&config.text, config.text_key.as_deref())?;
    let before = if resume { Some(Activations::read(path)?) } else { None };
    if before.is_none() {
        free(path, overwrite)?;
    }
    let reader = Reader::load(config)?;
    let mut contexts = Contexts::new(documents, &reader.tokenizer, config)?;
    at(path, std::fs::create_dir_all(path))?;
    let mut state = Harvest::new(config, reader, path);
    if let Some(before) = before {
        state.check_same(&before.manifest)?;
        if before.manifest.resume.is_none() {
            return Ok(Harvested::Finished(Box::new(before)));
        }
        state.restore(before.manifest, &mut contexts)?;
    } else {
        state.manifest.write(path)?;
    }
    let ended = state.run(&mut contexts, verbosity, interrupt).and_then(|finished| {
        let nothing = state.manifest.train_tokens() == 0 && state.manifest.test_tokens() == 0;
        if finished && nothing { Err(ActivationsError::Empty("the text gave no tokens; give longer text".into())) } else { Ok(finished) }
    });
    if ended.is_err() && !resume && state.manifest.train.is_empty() {
        // Nothing was harvested that a resumed harvest could use.
        at(path, std::fs::remove_dir_all(path))?;
    }
    if !ended? {
        return Ok(Harvested::Interrupted { tokens: state.manifest.train_tokens() });
    }
    Ok(Harvested::Finished(Box::new(Activations { path: path.into(), manifest: state.manifest })))
}

/// Makes sure that nothing is in the way.
fn free(path: &Path, overwrite: bool) -> Result<(), ActivationsError> {
    if !path.exists() || at(path, std::fs::read_dir(path))?.next().is_none() {
        return Ok(());
    }
    if overwrite && path.join(MANIFEST).is_file() {
        return at(path, std::fs::remove_dir_all(path));
    }
    Err(ActivationsError::Exists(path.into()))
}

impl<'a> Harvest<'a> {
    fn new(config: &'a HarvestConfig, reader: Reader, path: &'a Path) -> Self {
        let names = reader.names();
        let hooks = names.iter().map(|(hook, width)| HookInfo { hook: hook.clone(), width: *width, mean_norm: 0.0 }).collect();
        let resume = Resume { place: (0, 0), emissions: 0, norm_sums: vec![0.0; names.len()], kept: 0 };
        let manifest = Manifest {
            format_version: Manifest::version(),
            sememe_version: env!("CARGO_PKG_VERSION").into(),
            model: config.model.clone(),
            fingerprint: reader.model.fingerprint(),
            hooks,
            precision: config.precision,
            context_tokens: config.context_tokens,
            left_out: LeftOut { first: !config.keep_first, special: !config.keep_special, tokens: 0 },
            text: config.text.clone(),
            test_fraction: config.test_fraction,
            seed: config.seed,
            train: Vec::new(),
            test: Vec::new(),
            contexts: Vec::new(),
            resume: Some(resume),
        };
        let buffer = Buffer::new(config.buffer_mib << 20, reader.row_bytes(), config.seed);
        let (test, norm_sums) = (Chunk::new(names.len()), vec![0.0; names.len()]);
        Self { config, reader, path, manifest, names, buffer, test, new_contexts: Vec::new(), norm_sums, kept: 0 }
    }

    /// Refuses to go on with a harvest of other settings.
    fn check_same(&self, before: &Manifest) -> Result<(), ActivationsError> {
        let mismatch = |what: &str| ActivationsError::Mismatch {
            path: self.path.into(),
            message: format!("{what}; resume with the same, or start anew with --overwrite"),
        };
        let now = &self.manifest;
        let same_hooks = now.hooks.iter().map(|info| &info.hook).eq(before.hooks.iter().map(|info| &info.hook));
        if before.fingerprint != now.fingerprint || !same_hooks {
            return Err(mismatch("the harvest was begun with another model or other hooks"));
        }
        let settings = |manifest: &Manifest| {
            let LeftOut { first, special, .. } = manifest.left_out;
            (
                manifest.precision,
                manifest.context_tokens,
                manifest.text.clone(),
                manifest.test_fraction.to_bits(),
                manifest.seed,
                first,
                special,
            )
        };
        if settings(before) != settings(now) {
            return Err(mismatch("the harvest was begun with other text or settings"));
        }
        Ok(())
    }

    /// Takes up where another process stopped.
    fn restore(&mut self, before: Manifest, contexts: &mut Contexts) -> Result<(), ActivationsError> {
        let Some(resume) = before.resume.clone() else { return Ok(()) };
        contexts.go_to(resume.place)?;
        let file = self.path.join(BUFFER);
        if file.is_file() {
            self.buffer.chunk = Chunk::read(&self.names, self.config.precision, &file)?;
        }
        self.buffer.emissions = resume.emissions;
        (self.norm_sums, self.kept) = (resume.norm_sums, resume.kept);
        self.manifest = before;
        Ok(())
    }

    fn train_tokens(&self) -> usize {
        self.manifest.train_tokens() + self.buffer.chunk.len()
    }

    fn run(&mut self, contexts: &mut Contexts, verbosity: Verbosity, interrupt: &Interrupt) -> Result<bool, ActivationsError> {
        let wanted = self.config.tokens;
        let total = if wanted > 0 { wanted as u64 } else { contexts.bytes().1 };
        let unit = if wanted > 0 { "tokens" } else { "bytes" };
        let mut progress = Progress::of("harvest", unit, self.train_tokens(), total as usize, verbosity);
        let mut saved = Instant::now();
        let finished = loop {
            if self.train_is_full() && (self.config.test_tokens == 0 || self.test_is_full()) {
                break true;
            }
            let batch = self.next_batch(contexts)?;
            if batch.is_empty() {
                break true;
            }
            self.batch(&batch)?;
            let done = if wanted > 0 { self.train_tokens().min(wanted) } else { contexts.bytes().0 as usize };
            progress.show(done, &BTreeMap::new());
            if interrupt.load(Ordering::Relaxed) {
                break false;
            }
            if saved.elapsed() > BETWEEN_SAVES {
                self.save(contexts.place())?;
                saved = Instant::now();
            }
        };
        progress.finish();
        if finished {
            self.finish()?
        } else {
            self.save(contexts.place())?
        }
        Ok(finished)
    }

    /// The next contexts, without those of a part that has enough.
    fn next_batch(&self, contexts: &mut Contexts) -> Result<Vec<Context>, ActivationsError> {
        let enough = (self.train_is_full(), self.test_is_full());
        let wanted = |context: &Context| if context.is_test { !enough.1 } else { !enough.0 };
        let wanted = contexts.filter(|context| context.as_ref().map_or(true, wanted));
        wanted.take(self.config.batch_contexts).collect()
    }

    fn train_is_full(&self) -> bool {
        self.config.tokens > 0 && self.train_tokens() >= self.config.tokens
    }

    fn batch(&mut self, batch: &[Context]) -> Result<(), ActivationsError> {
        let first = self.manifest.context_count() + self.new_contexts.len();
        let before = self.buffer.chunk.len() + self.test.len();
        let (sums, left_out) = self.reader.run(batch, first, &mut self.buffer.chunk, &mut self.test)?;
        self.norm_sums.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
        self.kept += (self.buffer.chunk.len() + self.test.len() - before) as u64;
        self.manifest.left_out.tokens += left_out;
        self.new_contexts.extend(batch.iter().map(|context| context.ids.clone()));
        if self.test.len() >= self.config.shard_tokens {
            self.write_test()?;
        }
        if self.buffer.is_full() {
            self.emit(false)?;
        }
        Ok(())
    }

    fn test_is_full(&self) -> bool {
        self.config.test_tokens > 0 && self.manifest.test_tokens() + self.test.len() >= self.config.test_tokens
    }

    fn write_test(&mut self) -> Result<(), ActivationsError> {
        let file = format!("test-{:05}.safetensors", self.manifest.test.len());
        self.test.write((0, self.test.len()), &self.names, self.config.precision, &self.path.join(&file))?;
        self.manifest.test.push(Part { file, count: self.test.len() });
        self.test.truncate(0, &self.reader.row_bytes());
        Ok(())
    }

    /// Shuffles, and writes half of the buffer or all of it.
    fn emit(&mut self, is_last: bool) -> Result<(), ActivationsError> {
        let (from, end) = (self.buffer.permute(is_last), self.buffer.chunk.len());
        for begin in (from..end).step_by(self.config.shard_tokens) {
            let to = end.min(begin + self.config.shard_tokens);
            let file = format!("train-{:05}.safetensors", self.manifest.train.len());
            self.buffer.chunk.write((begin, to), &self.names, self.config.precision, &self.path.join(&file))?;
            self.manifest.train.push(Part { file, count: to - begin });
        }
        self.buffer.leave(from);
        Ok(())
    }

    fn write_new_contexts(&mut self) -> Result<(), ActivationsError> {
        if self.new_contexts.is_empty() {
            return Ok(());
        }
        let file = format!("contexts-{:05}.safetensors", self.manifest.contexts.len());
        write_contexts(&self.new_contexts, &self.path.join(&file))?;
        self.manifest.contexts.push(Part { file, count: self.new_contexts.len() });
        self.new_contexts.clear();
        Ok(())
    }

    /// Saves all that a resumed harvest needs.
    fn save(&mut self, place: (usize, usize)) -> Result<(), ActivationsError> {
        self.write_new_contexts()?;
        if !self.test.is_empty() {
            self.write_test()?;
        }
        let chunk = &self.buffer.chunk;
        chunk.write((0, chunk.len()), &self.names, self.config.precision, &self.path.join(BUFFER))?;
        self.manifest.resume = Some(Resume { place, emissions: self.buffer.emissions, norm_sums: self.norm_sums.clone(), kept: self.kept });
        self.manifest.write(self.path)
    }

    fn finish(&mut self) -> Result<(), ActivationsError> {
        self.write_new_contexts()?;
        if !self.test.is_empty() {
            self.write_test()?;
        }
        if self.config.tokens > 0 {
            // What was read beyond the wish, by the last batch.
            let over = self.train_tokens().saturating_sub(self.config.tokens).min(self.buffer.chunk.len());
            self.buffer.leave(self.buffer.chunk.len() - over);
        }
        if !self.buffer.chunk.is_empty() {
            self.emit(true)?;
        }
        for (info, sum) in self.manifest.hooks.iter_mut().zip(&self.norm_sums) {
            info.mean_norm = sum / self.kept.max(1) as f64;
        }
        self.manifest.resume = None;
        self.manifest.write(self.path)?;
        let buffer = self.path.join(BUFFER);
        if buffer.is_file() { at(&buffer, std::fs::remove_file(&buffer)) } else { Ok(()) }
    }
}
