//! Everything that can go wrong in a run, each as one line that says what, where and what to do.

use thiserror::Error;

use crate::config::ConfigError;
use crate::folder::FolderError;
use crate::source::SourceError;

/// Why a run could not start, go on or be read.
#[derive(Debug, Error)]
pub enum RunError {
    /// The config.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An array of the user's own.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Text of the user's own.
    #[error(transparent)]
    Text(#[from] crate::text::TextError),
    /// The run's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A world that cannot be built.
    #[error(transparent)]
    World(#[from] sememe_truth::world::WorldError),
    /// A model that cannot be built.
    #[error(transparent)]
    Model(#[from] sememe::generative::ModelError),
    /// Training stopped.
    #[error(transparent)]
    Train(#[from] sememe::train::TrainError),
    /// Activations that cannot be harvested or read.
    #[error(transparent)]
    Activations(#[from] crate::activations::ActivationsError),
    /// A language model.
    #[error(transparent)]
    Lm(#[from] sememe_lm::LmError),
    /// A dictionary that cannot be built.
    #[error(transparent)]
    Dictionary(#[from] sememe::dictionary::DictionaryError),
    /// A pair that cannot be built.
    #[error(transparent)]
    Pair(#[from] sememe::pair::PairError),
    /// A dictionary's training stopped.
    #[error(transparent)]
    DictionaryTrain(#[from] sememe::dictionary::DictionaryTrainError),
    /// A dictionary in the format of another tool.
    #[error(transparent)]
    Interop(#[from] crate::interop::InteropError),
    /// Data that do not fit the config.
    #[error("{0}")]
    Data(String),
}
