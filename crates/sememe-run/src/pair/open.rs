//! A pair's run, opened again: the trained dictionaries, the layer between them, the activations and the language model.

use std::path::Path;

use burn::tensor::Device;
use sememe::pair::{Layer, Pair};
use sememe_lm::{Hook, Tokenizer, Transformer};

use super::config::{Config, Side};
use super::layer::{hooks_of, layer_between, model_of};
use crate::activations::{Activations, Hooks};
use crate::config::parse;
use crate::dictionary::Live;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::interop::native::open;

/// What of the activations a pair codes.
pub(super) struct Ready {
    pub hooks: Hooks,
    pub between: [Hook; 2],
    pub widths: (usize, usize),
}

/// Hooks and widths of the activations, if they suit the pair.
pub(super) fn ready(config: &Config, source: &Activations) -> Result<Ready, RunError> {
    let (hooks, between) = hooks_of(config, source)?;
    let width = |side: &[(usize, f64)]| source.manifest.hooks[side[0].0].width;
    let widths = (width(&hooks.input), width(&hooks.target));
    config.pair.check(widths.0, widths.1)?;
    Ok(Ready { hooks, between, widths })
}

/// J in the units of training, of J between unscaled activations: the ratio of the two scales.
pub(super) fn unit(hooks: &Hooks) -> f64 {
    hooks.target[0].1 / hooks.input[0].1
}

/// A trained pair with everything it is a pair of.
pub(super) struct Opened {
    pub pair: Pair,
    /// Between unscaled activations.
    pub layer: Layer,
    pub source: Activations,
    pub hooks: Hooks,
    pub between: [Hook; 2],
    pub model: Transformer,
    pub tokenizer: Tokenizer,
    /// J in the units of training, of J between unscaled activations.
    pub unit: f64,
}

impl Opened {
    pub fn new(pair: Pair, config: &Config, source: Activations, model: Transformer, tokenizer: Tokenizer) -> Result<Self, RunError> {
        let Ready { hooks, between, .. } = ready(config, &source)?;
        let layer = layer_between(&model, between[0], between[1], (1.0, 1.0))?;
        let unit = unit(&hooks);
        Ok(Self { pair, layer, source, hooks, between, model, tokenizer, unit })
    }
}

/// The config and the trained pair of a run folder, with another place of its language model if one is given.
pub(super) fn open_run_of(path: &Path, model: Option<&str>) -> Result<(RunFolder, Config, Opened), RunError> {
    let folder = RunFolder::open(path)?;
    let mut config: Config = parse(&folder.read_config()?, &path.join("config.toml").display().to_string(), &[])?;
    if let Some(model) = model {
        config.evaluation.model = Some(model.into());
    }
    let source = match &config.data.activations {
        Some(folder) => Activations::open(folder)?,
        None => Activations::open(&Live::folder_of(path))?,
    };
    let device = Device::flex();
    let mut sides = Vec::new();
    for side in Side::BOTH {
        let part = path.join(side.name());
        let (dictionary, saved) = open(&part, &device)?;
        if saved.fingerprint != source.manifest.fingerprint {
            let message = format!("these activations are of another model than those that {} was trained on", part.display());
            return Err(crate::activations::ActivationsError::Mismatch { path: source.path, message }.into());
        }
        sides.push(dictionary);
    }
    let (Some(output), Some(input)) = (sides.pop(), sides.pop()) else { unreachable!("two sides were read") };
    let (language_model, tokenizer) = model_of(config.evaluation.model.as_deref(), &source)?;
    let opened = Opened::new(Pair { input, output }, &config, source, language_model, tokenizer)?;
    Ok((folder, config, opened))
}

/// The two hooks of a pair's run, what enters first.
///
/// # Errors
/// A run that is not finished.
pub fn hooks_of_run(path: &Path) -> Result<[Hook; 2], RunError> {
    let hook = |side: Side| {
        let (_, saved) = open(&path.join(side.name()), &Device::flex())?;
        saved.hooks.first().map_or(Ok(Hook::new(0, sememe_lm::Place::MlpIn)), |hook| hook.parse().map_err(RunError::Data))
    };
    Ok([hook(Side::Input)?, hook(Side::Output)?])
}
