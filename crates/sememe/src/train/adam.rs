//! Adam over the parameters of a module, with clipping by global norm, and a state that can be saved.
//!
//! # Source
//! Kingma & Ba 2015, arXiv 1412.6980, algorithm 1; clipping: Pascanu et al. 2013.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;
use sememe_kernels::{AdamMoments, AdamStep, adam_step, squared_norm};
use serde::{Deserialize, Serialize};

use super::gradients::{NamedTensors, parameters};

/// Settings of Adam.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamConfig {
    /// β₁, in [0, 1).
    pub beta1: f64,
    /// β₂, in [0, 1).
    pub beta2: f64,
    /// ε, above 0.
    pub epsilon: f64,
    /// Gradients are scaled down to this global norm; 0 means no clipping.
    pub clip_norm: f64,
}

impl Default for AdamConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, clip_norm: 0.0 }
    }
}

impl AdamConfig {
    /// The first key that makes no sense, with its value and what it may be.
    pub fn check(&self) -> Result<(), (&'static str, f64, &'static str)> {
        for (key, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&beta) {
                return Err((key, beta, "give a number from 0 to below 1"));
            }
        }
        if !(self.epsilon.is_finite() && self.epsilon > 0.0) {
            return Err(("epsilon", self.epsilon, "give a finite number above 0"));
        }
        if !(self.clip_norm.is_finite() && self.clip_norm >= 0.0) {
            return Err(("clip_norm", self.clip_norm, "give a finite number, 0 (no clipping) or above"));
        }
        Ok(())
    }
}

/// Adam's state.
#[derive(Clone, Debug)]
pub struct Adam {
    config: AdamConfig,
    /// t, the steps taken.
    pub taken: usize,
    /// `(m, v)` by parameter name, flattened.
    moments: BTreeMap<String, AdamMoments<1>>,
    /// Names of the matrices whose rows have norm 1.
    unit_rows: Vec<String>,
}

impl Adam {
    /// Before the first step.
    pub fn new(config: AdamConfig) -> Self {
        Self { config, taken: 0, moments: BTreeMap::new(), unit_rows: Vec::new() }
    }

    /// Keeps the rows of the parameters called `names` (matrices) at norm 1; see [`AdamStep::unit_rows`].
    #[must_use]
    pub fn with_unit_rows(mut self, names: &[&str]) -> Self {
        self.unit_rows = names.iter().map(|name| (*name).to_string()).collect();
        self
    }

    /// One step of the module against `gradients`; parameters without a gradient stay.
    pub fn step<M: Module>(&mut self, module: M, gradients: NamedTensors, learning_rate: f64) -> M {
        self.taken += 1;
        let gradient_scale = if self.config.clip_norm > 0.0 {
            let norm = self.global_norm(&module, &gradients);
            if norm > self.config.clip_norm { self.config.clip_norm / norm } else { 1.0 }
        } else {
            1.0
        };
        let step = AdamStep {
            learning_rate,
            beta1: self.config.beta1,
            beta2: self.config.beta2,
            epsilon: self.config.epsilon,
            step: self.taken,
            gradient_scale,
            unit_rows: None,
        };
        module.map(&mut Apply { path: Vec::new(), gradients, moments: &mut self.moments, unit_rows: &self.unit_rows, step })
    }

    /// The norm of all gradients together, without their part along unit rows.
    fn global_norm<M: Module>(&self, module: &M, gradients: &NamedTensors) -> f64 {
        let values = if self.unit_rows.is_empty() { NamedTensors::new() } else { parameters(module) };
        let squares = gradients.iter().map(|(name, (gradient, shape))| match values.get(name) {
            Some((value, _)) if self.unit_rows.contains(name) => squared_norm(gradient, value, Some(shape[1])),
            _ => squared_norm(gradient, gradient, None),
        });
        squares.sum::<f64>().sqrt()
    }

    /// The moments as named tensors (`m/…`, `v/…`), for a checkpoint.
    pub fn state(&self) -> NamedTensors {
        let mut state = NamedTensors::new();
        for (name, moments) in &self.moments {
            state.insert(format!("m/{name}"), (moments.first.clone(), moments.first.shape()));
            state.insert(format!("v/{name}"), (moments.second.clone(), moments.second.shape()));
        }
        state
    }

    /// The state that was saved after `taken` steps.
    ///
    /// # Errors
    /// One line that names a tensor without its partner.
    pub fn restore(config: AdamConfig, taken: usize, mut state: NamedTensors) -> Result<Self, String> {
        let names: Vec<String> = state.keys().filter_map(|key| key.strip_prefix("m/").map(str::to_string)).collect();
        let mut moments = BTreeMap::new();
        for name in names {
            match (state.remove(&format!("m/{name}")), state.remove(&format!("v/{name}"))) {
                (Some((first, _)), Some((second, _))) => moments.insert(name, AdamMoments { first, second }),
                _ => return Err(format!("tensor `v/{name}` is missing")),
            };
        }
        match state.keys().next() {
            Some(name) => Err(format!("tensor `{name}` is no moment of a parameter")),
            None => Ok(Self { config, taken, moments, unit_rows: Vec::new() }),
        }
    }
}

struct Apply<'a> {
    path: Vec<String>,
    gradients: NamedTensors,
    moments: &'a mut BTreeMap<String, AdamMoments<1>>,
    unit_rows: &'a [String],
    step: AdamStep,
}

impl ModuleMapper for Apply<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        let Some((gradient, _)) = self.gradients.remove(&name) else { return param };
        let (id, tensor, mapper) = param.consume();
        let shape = tensor.shape();
        let value = tensor.inner();
        let value = value.reshape([shape.num_elements()]);
        let moments = self.moments.remove(&name).unwrap_or_else(|| AdamMoments::zeros_like(&value));
        let unit_rows = self.unit_rows.contains(&name).then(|| shape[D - 1]);
        let (value, moments) = adam_step(value, gradient, moments, AdamStep { unit_rows, ..self.step });
        self.moments.insert(name, moments);
        let tensor = Tensor::from_inner(value.reshape(shape)).require_grad();
        Param::from_mapped_value(id, tensor, mapper)
    }
}
