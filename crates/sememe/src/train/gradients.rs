//! Tensors by parameter name: gradients, moments and weights in the one form in which they are added, saved and loaded.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Shape, Tensor};

/// A tensor a parameter, by its path in the module (`decoder.layers.0.weight`), flattened, with its shape.
pub type NamedTensors = BTreeMap<String, (Tensor<1>, Shape)>;

fn flat<const D: usize>(tensor: Tensor<D>) -> (Tensor<1>, Shape) {
    let shape = tensor.shape();
    let elements = shape.num_elements();
    (tensor.reshape([elements]), shape)
}

#[derive(Default)]
struct Path(Vec<String>);

impl Path {
    fn name(&self) -> String {
        self.0.join(".")
    }
}

struct Collect<F> {
    path: Path,
    found: NamedTensors,
    pick: F,
}

/// Picks a tensor of the parameter's own rank for every parameter; a generic closure cannot be written, hence a trait.
trait Pick {
    fn pick<const D: usize>(&self, value: Tensor<D>) -> Option<Tensor<D>>;
}

impl<F: Pick> ModuleVisitor for Collect<F> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.0.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.0.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(tensor) = self.pick.pick(param.val()) {
            self.found.insert(self.path.name(), flat(tensor));
        }
    }
}

struct Values;

impl Pick for Values {
    fn pick<const D: usize>(&self, value: Tensor<D>) -> Option<Tensor<D>> {
        Some(value.inner())
    }
}

struct OfGradients<'a>(&'a Gradients);

impl Pick for OfGradients<'_> {
    fn pick<const D: usize>(&self, value: Tensor<D>) -> Option<Tensor<D>> {
        value.grad(self.0)
    }
}

/// Every parameter of the module, without autodiff.
pub fn parameters<M: Module>(module: &M) -> NamedTensors {
    let mut collect = Collect { path: Path::default(), found: BTreeMap::new(), pick: Values };
    module.visit(&mut collect);
    collect.found
}

/// The gradients that reached parameters of the module.
pub fn gradients_of<M: Module>(module: &M, gradients: &Gradients) -> NamedTensors {
    let mut collect = Collect { path: Path::default(), found: BTreeMap::new(), pick: OfGradients(gradients) };
    module.visit(&mut collect);
    collect.found
}

/// Adds `more` into `sum`, name by name.
pub(super) fn add(sum: &mut NamedTensors, more: NamedTensors) {
    for (name, (tensor, shape)) in more {
        let total = match sum.remove(&name) {
            Some((so_far, _)) => so_far + tensor,
            None => tensor,
        };
        sum.insert(name, (total, shape));
    }
}

struct Replace<'a> {
    path: Path,
    values: &'a mut NamedTensors,
    problem: Option<String>,
}

impl ModuleMapper for Replace<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.0.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.0.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.name();
        let device = param.val().device();
        let shape = param.val().shape();
        match self.values.remove(&name) {
            Some((tensor, found)) if found == shape => {
                let plain = tensor.reshape(shape);
                let tracked = if device.is_autodiff() { Tensor::from_inner(plain).require_grad() } else { plain };
                param.map(|_| tracked)
            }
            Some((_, found)) => {
                self.problem.get_or_insert(format!("tensor `{name}` has shape {found}, the model needs {shape}"));
                param
            }
            None => {
                self.problem.get_or_insert(format!("tensor `{name}` is missing"));
                param
            }
        }
    }
}

/// The module with `values` in place of its parameters.
///
/// # Errors
/// One line that names the first tensor that is missing, left over or of another shape.
pub fn replace_parameters<M: Module>(module: M, mut values: NamedTensors) -> Result<M, String> {
    let mut replace = Replace { path: Path::default(), values: &mut values, problem: None };
    let module = module.map(&mut replace);
    if let Some(problem) = replace.problem {
        return Err(problem);
    }
    match values.keys().next() {
        Some(name) => Err(format!("tensor `{name}` belongs to no parameter of the model")),
        None => Ok(module),
    }
}
