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
    /// Data that do not fit the config.
    #[error("{0}")]
    Data(String),
}
