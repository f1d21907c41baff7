//! Parameters by the names and layouts of a checkpoint: one table a family, used to load and to save.
//!
//! A [`Rule`] says of which tensors a parameter is made. Checkpoints keep
//! matrices as `[out, in]`; here they are `[in, out]`, and matrices that read
//! the same input lie side by side, so that one product serves them all.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};

use crate::LmError;

/// Tensors by name, read one at a time.
pub(crate) trait Checkpoint {
    /// The file or folder, for messages.
    fn place(&self) -> &Path;
    /// Every tensor.
    fn names(&self) -> Vec<String>;
    /// Shape and numbers.
    fn read(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), LmError>;
}

/// How a tensor of the checkpoint lies in memory against ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// The same.
    Same,
    /// `[out, in]`.
    Transposed,
    /// `[channels, 1, taps]` against `[channels, taps]`.
    Channels,
}

/// A tensor, or those of its rows that belong to a parameter.
#[derive(Clone, Debug)]
pub struct Piece {
    name: String,
    layout: Layout,
    rows: Rows,
}

/// Which rows of a tensor belong to a parameter.
#[derive(Clone, Debug)]
enum Rows {
    /// All, as many as the parameter has columns.
    All,
    /// All, and there are so many.
    Count(usize),
    /// Rows come in so many groups, each of runs so long; ours is the run with this index.
    Part(usize, Vec<usize>, usize),
}

impl Piece {
    /// The parameter's own layout: vectors, tables and matrices `[in, out]`.
    pub(crate) fn same(name: &str) -> Self {
        Self { name: name.to_string(), layout: Layout::Same, rows: Rows::All }
    }

    /// A matrix `[out, in]`.
    pub(crate) fn linear(name: &str) -> Self {
        Self { layout: Layout::Transposed, ..Self::same(name) }
    }

    /// A convolution a channel.
    pub(crate) fn channels(name: &str) -> Self {
        Self { layout: Layout::Channels, ..Self::same(name) }
    }

    /// With so many rows, where a parameter has several pieces.
    pub(crate) fn rows(self, count: usize) -> Self {
        Self { rows: Rows::Count(count), ..self }
    }

    /// Of rows in `groups` of runs `runs` long, the run `index` of each group.
    pub(crate) fn part(self, groups: usize, runs: &[usize], index: usize) -> Self {
        Self { rows: Rows::Part(groups, runs.to_vec(), index), ..self }
    }

    fn name_at(&self, layer: &str) -> String {
        self.name.replace('*', layer)
    }

    /// Rows of the whole tensor, for a parameter of so many columns.
    fn total(&self, columns: usize) -> usize {
        match &self.rows {
            Rows::All => columns,
            Rows::Count(count) => *count,
            Rows::Part(groups, runs, _) => groups * runs.iter().sum::<usize>(),
        }
    }

    /// Where our rows lie in the tensor.
    fn runs(&self, columns: usize) -> Vec<Range<usize>> {
        match &self.rows {
            Rows::All | Rows::Count(_) => std::iter::once(0..self.total(columns)).collect(),
            Rows::Part(groups, runs, index) => {
                let (whole, before): (usize, usize) = (runs.iter().sum(), runs[..*index].iter().sum());
                (0..*groups).map(|group| group * whole + before..group * whole + before + runs[*index]).collect()
            }
        }
    }
}

/// Of which pieces, side by side, a parameter is made; `*` stands for the layer.
#[derive(Clone, Debug)]
pub struct Rule {
    parameter: &'static str,
    pieces: Vec<Piece>,
}

impl Rule {
    pub(crate) fn new(parameter: &'static str, pieces: Vec<Piece>) -> Self {
        Self { parameter, pieces }
    }
}

/// The rule of the parameter at `path`, and the layer in which it lies.
fn rule_for<'a>(rules: &'a [Rule], path: &str) -> Option<(&'a Rule, String)> {
    let layer = path.strip_prefix("layers.").and_then(|rest| rest.split('.').next()).unwrap_or_default();
    let pattern = if layer.is_empty() { path.to_string() } else { path.replacen(layer, "*", 1) };
    rules.iter().find(|rule| rule.parameter == pattern).map(|rule| (rule, layer.to_string()))
}

/// `rows × columns` numbers with rows and columns exchanged.
fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    const TILE: usize = 32;
    let mut output = vec![0.0; values.len()];
    for row in (0..rows).step_by(TILE) {
        for column in (0..columns).step_by(TILE) {
            for r in row..(row + TILE).min(rows) {
                for c in column..(column + TILE).min(columns) {
                    output[c * rows + r] = values[r * columns + c];
                }
            }
        }
    }
    output
}

/// The module path of the parameter that is being visited.
#[derive(Default)]
struct Trail(Vec<String>);

impl Trail {
    fn joined(&self) -> String {
        self.0.join(".")
    }
}

struct Fill<'a> {
    trail: Trail,
    rules: &'a [Rule],
    checkpoint: &'a dyn Checkpoint,
    used: BTreeSet<String>,
    problem: Option<LmError>,
}

impl Fill<'_> {
    /// Reads a tensor, which must have this shape.
    fn read(&mut self, name: String, expected: Vec<usize>) -> Result<Vec<f32>, LmError> {
        let (got, values) = self.checkpoint.read(&name)?;
        if got != expected {
            return Err(LmError::Shape { file: self.checkpoint.place().to_path_buf(), tensor: name, expected, got });
        }
        self.used.insert(name);
        Ok(values)
    }

    /// The numbers of the parameter at the current path, of this shape.
    fn values(&mut self, shape: &[usize]) -> Result<Vec<f32>, LmError> {
        let path = self.trail.joined();
        let Some((rule, layer)) = rule_for(self.rules, &path) else {
            return Err(LmError::MissingTensor { file: self.checkpoint.place().to_path_buf(), tensor: path });
        };
        let (columns, height) = (shape[shape.len() - 1], shape[..shape.len() - 1].first().copied());
        let mut rows = Vec::new();
        for piece in &rule.pieces {
            let (name, total) = (piece.name_at(&layer), piece.total(columns));
            match (piece.layout, height) {
                (Layout::Channels, Some(height)) => return self.read(name, vec![height, 1, columns]),
                (Layout::Same, Some(height)) => return self.read(name, vec![height, columns]),
                _ => {
                    let values = self.read(name, std::iter::once(total).chain(height).collect())?;
                    let inner = height.unwrap_or(1);
                    piece.runs(columns).into_iter().for_each(|run| rows.extend_from_slice(&values[run.start * inner..run.end * inner]));
                }
            }
        }
        Ok(match height {
            Some(height) => transposed(&rows, columns, height),
            None => rows,
        })
    }
}

impl ModuleMapper for Fill<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.trail.0.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.trail.0.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.problem.is_some() {
            return param;
        }
        let shape = param.lazy_shape().to_vec();
        match self.values(&shape) {
            Ok(values) => Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), &param.lazy_device())),
            Err(problem) => {
                self.problem = Some(problem);
                param
            }
        }
    }
}

/// What names end in or contain that hold no weights of the language model: tables computed anew, causal masks, other modalities.
const IGNORED: [&str; 9] = [
    "rotary_emb.inv_freq",
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
    "visual.",
    "vision_tower.",
    "multi_modal_projector.",
    "mtp.",
];

/// The model with the checkpoint's numbers.
pub(crate) fn fill<M: Module>(model: M, rules: &[Rule], checkpoint: &dyn Checkpoint, is_tied: bool) -> Result<M, LmError> {
    let mut fill = Fill { trail: Trail::default(), rules, checkpoint, used: BTreeSet::new(), problem: None };
    let model = model.map(&mut fill);
    if let Some(problem) = fill.problem {
        return Err(problem);
    }
    let is_needed = |name: &String| {
        let ignored = IGNORED.iter().any(|part| name.ends_with(part) || (part.ends_with('.') && name.contains(part)));
        let copy = is_tied && (name == "lm_head.weight" || name == "embed_out.weight");
        !ignored && !copy && !fill.used.contains(name)
    };
    match checkpoint.names().into_iter().find(is_needed) {
        Some(tensor) => Err(LmError::LeftOver { file: checkpoint.place().to_path_buf(), tensor }),
        None => Ok(model),
    }
}

/// Tensors in the layout of the checkpoint.
pub(crate) type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

struct Drain<'a> {
    trail: Trail,
    rules: &'a [Rule],
    tensors: Tensors,
}

impl ModuleVisitor for Drain<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.trail.0.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.trail.0.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.trail.joined();
        let Some((rule, layer)) = rule_for(self.rules, &path) else { unreachable!("the family has no rule for `{path}`") };
        let shape = param.val().dims();
        let values: Vec<f32> = param.val().into_data().iter::<f32>().collect();
        let (columns, height) = (shape[D - 1], shape[..D - 1].first().copied());
        let inner = height.unwrap_or(1);
        let rows = || if height.is_some() { transposed(&values, inner, columns) } else { values.clone() };
        let mut at = 0;
        for piece in &rule.pieces {
            let (name, total) = (piece.name_at(&layer), piece.total(columns));
            match (piece.layout, height) {
                (Layout::Channels, Some(height)) => {
                    self.tensors.insert(name, (vec![height, 1, columns], values.clone()));
                }
                (Layout::Same, Some(height)) => {
                    self.tensors.insert(name, (vec![height, columns], values.clone()));
                }
                _ => {
                    let dims = || std::iter::once(total).chain(height).collect();
                    let (_, whole) = self.tensors.entry(name).or_insert_with(|| (dims(), vec![0.0; total * inner]));
                    let rows = rows();
                    for run in piece.runs(columns) {
                        whole[run.start * inner..run.end * inner].copy_from_slice(&rows[at * inner..(at + run.len()) * inner]);
                        at += run.len();
                    }
                }
            }
        }
    }
}

/// The model's numbers as tensors of a checkpoint.
pub(crate) fn drain<M: Module>(model: &M, rules: &[Rule]) -> Tensors {
    let mut drain = Drain { trail: Trail::default(), rules, tensors: Tensors::new() };
    model.visit(&mut drain);
    drain.tensors
}
