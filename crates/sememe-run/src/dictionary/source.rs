//! Where a run's batches come from: shards on disk, or a language model that runs meanwhile.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use sememe::dictionary::{Batch, BatchError, Batches};

use crate::activations::{Activations, HarvestConfig, Harvested, Hooks, LiveBatches, ShardBatches, harvest};
use crate::error::RunError;
use crate::start::RunOptions;

/// Tokens that are harvested before live training, for the scale of the activations.
const SCALE_TOKENS: usize = 65_536;
/// Held-out tokens of a live run.
const LIVE_TEST_TOKENS: usize = 65_536;
const LIVE: &str = "live";

/// Before live training: held-out tokens to evaluate on and some to estimate the scale from; `None` when interrupted.
pub(crate) fn held_out(live: Option<&HarvestConfig>, run: &Path, options: &RunOptions) -> Result<Option<Activations>, RunError> {
    let folder = Live::folder_of(run);
    let live = live.cloned().unwrap_or_default();
    if let Ok(there) = Activations::open(&folder) {
        return Ok(Some(there));
    }
    let test_tokens = if live.test_tokens > 0 { live.test_tokens } else { LIVE_TEST_TOKENS };
    let some = HarvestConfig { tokens: SCALE_TOKENS, test_tokens, ..live };
    let resume = folder.join("activations.json").is_file();
    Ok(match harvest(&some, &folder, (resume, false), options.verbosity, &options.interrupt)? {
        Harvested::Finished(source) => Some(*source),
        Harvested::Interrupted { .. } => None,
    })
}

/// What is harvested while training goes on, if anything.
pub(crate) struct Live<'a> {
    pub config: Option<&'a HarvestConfig>,
    /// The run's folder.
    pub folder: &'a Path,
}

impl Live<'_> {
    /// Where a run keeps what it harvested itself.
    pub fn folder_of(run: &Path) -> PathBuf {
        run.join(LIVE)
    }
}

/// Batches of either source.
pub(crate) enum Source {
    /// Of a folder.
    Shards(Box<ShardBatches>),
    /// Of a model.
    Live(Box<LiveBatches>),
}

impl Source {
    /// Batches of so many tokens, in the order of this seed, from this step on.
    pub fn new(
        live: &Live<'_>,
        source: &Activations,
        hooks: &Hooks,
        (batch, seed, step): (usize, u64, usize),
        device: &Device,
    ) -> Result<Self, RunError> {
        Ok(match live.config {
            None => Self::Shards(Box::new(ShardBatches::new(source.clone(), hooks.clone(), batch, seed, device.clone())?)),
            Some(config) => {
                let mut batches = LiveBatches::new(config, source.clone(), hooks.clone(), batch, device.clone())?;
                batches.restore(&Live::folder_of(live.folder), step)?;
                Self::Live(Box::new(batches))
            }
        })
    }

    /// Keeps what a resumed run needs.
    pub fn save(&mut self, live: &Live<'_>) -> Result<(), RunError> {
        match self {
            Self::Shards(_) => Ok(()),
            Self::Live(batches) => Ok(batches.save(&Live::folder_of(live.folder))?),
        }
    }
}

impl Batches for Source {
    fn next(&mut self, step: usize) -> Result<Batch, BatchError> {
        match self {
            Self::Shards(shards) => shards.next(step),
            Self::Live(live) => live.next(step),
        }
    }
}
