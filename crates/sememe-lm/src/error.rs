//! What can be wrong with a model's files or with what is asked of it: what, where, and what to do.

use std::path::PathBuf;

use thiserror::Error;

/// Why a model could not be described, loaded, run or saved.
#[derive(Debug, Error)]
pub enum LmError {
    /// A file that cannot be opened, read or written.
    #[error("{}: {source}; check the path and its permissions", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Neither a folder with `config.json` nor a `.gguf` file.
    #[error("`{given}` is no model: {problem}")]
    NoModel {
        /// What was given.
        given: String,
        /// What is missing, and what to do.
        problem: String,
    },
    /// A key of a config or of GGUF metadata.
    #[error("{}: `{key}` {problem}", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// What is wrong with it, and what is expected.
        problem: String,
    },
    /// No family reads this `model_type`.
    #[error("{}: unknown architecture `{found}`; known are {known}", file.display())]
    UnknownArchitecture {
        /// The file.
        file: PathBuf,
        /// Its architecture.
        found: String,
        /// Those that exist.
        known: String,
    },
    /// Attention that is more than queries, keys and values.
    #[error("{hook}: this attention has {found}, for which there is no closed form here; take a layer without, or the MLP")]
    Attention {
        /// Where.
        hook: crate::Hook,
        /// What it has.
        found: &'static str,
    },
    /// A mixture of experts.
    #[error("{}: `{found}` is a mixture of experts, which is not supported; use a dense model of the family", file.display())]
    MixtureOfExperts {
        /// The file.
        file: PathBuf,
        /// Its architecture.
        found: String,
    },
    /// A file that is not what its name says: wrong magic, cut short, offsets outside.
    #[error("{}: {problem}; download or convert it again", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A tensor that the config calls for.
    #[error("{}: tensor `{tensor}` is missing; the config does not belong to these weights, or a shard is absent", file.display())]
    MissingTensor {
        /// The file or folder.
        file: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A tensor of another shape than the config calls for.
    #[error("{}: tensor `{tensor}` has shape {got:?}, the config asks for {expected:?}", file.display())]
    Shape {
        /// The file or folder.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape by the config.
        expected: Vec<usize>,
        /// The shape in the file.
        got: Vec<usize>,
    },
    /// A tensor that no parameter of the description takes.
    #[error("{}: tensor `{tensor}` belongs to no part of the model that its config describes, so results would be wrong", file.display())]
    LeftOver {
        /// The file or folder.
        file: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// Numbers stored in a way that is not read.
    #[error("{}: tensor `{tensor}` is stored as {found}; readable are {readable}", file.display())]
    Precision {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// How it is stored.
        found: String,
        /// What can be read.
        readable: &'static str,
    },
    /// A tokenizer that cannot be built or used.
    #[error("{}: tokenizer: {problem}", file.display())]
    Tokenizer {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A token id outside the vocabulary.
    #[error("token {id} is outside the model's vocabulary of {vocabulary}; the tokenizer belongs to another model")]
    Token {
        /// The id.
        id: u32,
        /// Ids from 0 to below this exist.
        vocabulary: usize,
    },
    /// More positions than the model has.
    #[error("{got} tokens in a row, the model has learned {most} positions; cut the text into shorter pieces")]
    TooLong {
        /// The length asked for.
        got: usize,
        /// The model's limit.
        most: usize,
    },
    /// No tokens at all.
    #[error("no tokens; give at least one")]
    NoTokens,
    /// A hook at a layer that the model does not have.
    #[error("hook `{hook}`: the model has layers 0 to {last}")]
    NoLayer {
        /// The hook.
        hook: crate::Hook,
        /// The model's last layer.
        last: usize,
    },
}
