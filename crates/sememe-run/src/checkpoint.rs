//! Checkpoints: the model's weights and the optimiser's moments as safetensors, and the rest of the state as JSON.

use burn::module::Module;
use burn::tensor::{Device, Shape, Tensor, TensorData};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use sememe::schedule::GuardState;
use sememe::train::{Adam, AdamConfig, Fit, NamedTensors, parameters, replace_parameters};
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::folder::RunFolder;

/// What a checkpoint holds beside tensors.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    step: usize,
    /// Steps since the optimiser's moments began (a change of basis begins them anew).
    optimiser_steps: usize,
    seed: u64,
    guards: Vec<GuardState>,
}

const MODEL: &str = "model.safetensors";
const OPTIMISER: &str = "optimiser.safetensors";
const STATE: &str = "state.json";
const MEMORY: &str = "memory.safetensors";

/// Tensors by name as the bytes of a safetensors file (F32).
pub fn encode_tensors(tensors: &NamedTensors) -> Result<Vec<u8>, RunError> {
    let raw: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, (tensor, shape))| {
            let bytes = tensor.clone().into_data().iter::<f32>().flat_map(f32::to_le_bytes).collect();
            (name.clone(), shape.to_vec(), bytes)
        })
        .collect();
    let views = raw
        .iter()
        .map(|(name, shape, bytes)| TensorView::new(Dtype::F32, shape.clone(), bytes).map(|view| (name.clone(), view)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| RunError::Data(format!("cannot write tensors: {error}")))?;
    safetensors::serialize(views, None).map_err(|error| RunError::Data(format!("cannot write tensors: {error}")))
}

/// The tensors of a safetensors file (F32); `origin` names it in errors.
pub fn decode_tensors(bytes: &[u8], origin: &str, device: &Device) -> Result<NamedTensors, RunError> {
    let damaged =
        |what: String| RunError::Data(format!("{origin}: {what}; the file is damaged or not of this run, train again without --resume"));
    let file = SafeTensors::deserialize(bytes).map_err(|error| damaged(error.to_string()))?;
    file.iter()
        .map(|(name, view)| {
            if view.dtype() != Dtype::F32 {
                return Err(damaged(format!("tensor `{name}` is {:?}, expected F32", view.dtype())));
            }
            let values: Vec<f32> = view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let count = values.len();
            Ok((name.to_string(), (Tensor::from_data(TensorData::new(values, [count]), device), Shape::from(view.shape().to_vec()))))
        })
        .collect()
}

/// Saves the state such that the folder holds either the old or the new checkpoint, whole.
///
/// `memory` is whatever else the next step needs, as tensors.
pub fn save<M: Module>(folder: &RunFolder, fit: &Fit<M>, memory: &NamedTensors) -> Result<(), RunError> {
    let state = State { step: fit.step, optimiser_steps: fit.adam.taken, seed: fit.seed(), guards: fit.guards.clone() };
    let state = serde_json::to_vec_pretty(&state).map_err(|error| RunError::Data(error.to_string()))?;
    let (model, optimiser) = (encode_tensors(&parameters(&fit.model))?, encode_tensors(&fit.adam.state())?);
    let mut files: Vec<(&str, &[u8])> = vec![(MODEL, &model), (OPTIMISER, &optimiser), (STATE, &state)];
    let memory = if memory.is_empty() { Vec::new() } else { encode_tensors(memory)? };
    if !memory.is_empty() {
        files.push((MEMORY, &memory));
    }
    Ok(folder.write_checkpoint(&files)?)
}

/// A checkpoint of a model with memory.
pub struct Saved<M> {
    /// The model with its saved weights.
    pub model: M,
    /// The optimiser.
    pub adam: Adam,
    /// Steps taken.
    pub step: usize,
    /// The run's seed.
    pub seed: u64,
    /// The guards' memories.
    pub guards: Vec<GuardState>,
    /// What was saved beside weights and optimiser.
    pub memory: NamedTensors,
}

/// The saved state over the untrained `model`, or `None` when nothing has been saved.
pub fn load<M: Module>(folder: &RunFolder, model: M, adam: &AdamConfig, terms: usize, device: &Device) -> Result<Option<Fit<M>>, RunError> {
    let saved = read(folder, model, adam, terms, false, device)?;
    Ok(saved.map(|saved| Fit::resume(saved.model, saved.adam, saved.step, saved.guards, saved.seed)))
}

/// The same of a model with memory.
pub fn load_with_memory<M: Module>(
    folder: &RunFolder,
    model: M,
    adam: &AdamConfig,
    terms: usize,
    device: &Device,
) -> Result<Option<Saved<M>>, RunError> {
    read(folder, model, adam, terms, true, device)
}

fn read<M: Module>(
    folder: &RunFolder,
    model: M,
    adam: &AdamConfig,
    terms: usize,
    has_memory: bool,
    device: &Device,
) -> Result<Option<Saved<M>>, RunError> {
    let names = [MODEL, OPTIMISER, STATE, MEMORY];
    let Some(files) = folder.read_checkpoint(&names[..if has_memory { 4 } else { 3 }])? else { return Ok(None) };
    let origin = |file: &str| folder.path().join("checkpoint").join(file).display().to_string();
    let bad = |file: &str, what: String| RunError::Data(format!("{}: {what}; the checkpoint does not belong to this config", origin(file)));
    let state: State = serde_json::from_slice(&files[2]).map_err(|error| bad(STATE, error.to_string()))?;
    if state.guards.len() != terms {
        return Err(bad(STATE, format!("{} penalties were saved, the config has {terms}", state.guards.len())));
    }
    let model = replace_parameters(model, decode_tensors(&files[0], &origin(MODEL), device)?).map_err(|what| bad(MODEL, what))?;
    let moments = decode_tensors(&files[1], &origin(OPTIMISER), device)?;
    let adam = Adam::restore(adam.clone(), state.optimiser_steps, moments).map_err(|what| bad(OPTIMISER, what))?;
    let memory = files.get(3).map_or(Ok(NamedTensors::new()), |bytes| decode_tensors(bytes, &origin(MEMORY), device))?;
    Ok(Some(Saved { model, adam, step: state.step, seed: state.seed, guards: state.guards, memory }))
}
