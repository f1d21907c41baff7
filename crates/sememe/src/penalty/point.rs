//! The point at which penalties are evaluated: a generator, a batch of latents, and how columns are chosen and pinned.

use std::cell::{OnceCell, RefCell};

use burn::tensor::{Tensor, TensorData};
use rand::Rng;
use sememe_truth::random::Stream;

use crate::jacobian::{self, ColumnChoice, Directions, Dual, Generator};

/// Columns of the (pinned) Jacobian at every sample.
#[derive(Clone, Debug)]
pub struct Columns {
    /// `[k, N, dx]`.
    pub values: Tensor<3>,
    /// Factor that makes a sum over these columns estimate the sum over all.
    pub scale: f64,
}

impl Columns {
    /// `scale/N · Σ` of element-wise `terms [k, N, …]` of the columns: the batch mean of a sum.
    pub fn batch_mean<const D: usize>(&self, terms: Tensor<D>) -> Tensor<1> {
        terms.sum() * (self.scale / self.values.dims()[1] as f64)
    }
}

/// Standard deviation of each latent over the batch (divided by N): `[N, dz] → [dz]`.
pub fn std_of_latents(latents: &Tensor<2>) -> Tensor<1> {
    let centred = latents.clone() - latents.clone().mean_dim(0);
    ((centred.clone() * centred).mean_dim(0) + 1e-12).sqrt().squeeze_dim::<1>(0)
}

/// Generator and latents, and what has been computed of them so far.
pub struct Point<'a> {
    generator: Generator<'a>,
    latents: Tensor<2>,
    pins: Option<Tensor<1>>,
    choice: ColumnChoice,
    stream: RefCell<Stream>,
    columns: OnceCell<(Directions, Dual<2>)>,
}

impl<'a> Point<'a> {
    /// The point `latents [N, dz]` of `generator`; `pins [dz]` multiply the directions (`None`: 1); `stream` draws random directions and columns.
    pub fn new(generator: Generator<'a>, latents: Tensor<2>, pins: Option<Tensor<1>>, choice: ColumnChoice, stream: Stream) -> Self {
        Self { generator, latents, pins, choice, stream: RefCell::new(stream), columns: OnceCell::new() }
    }

    /// `z [N, dz]`.
    pub fn latents(&self) -> Tensor<2> {
        self.latents.clone()
    }

    /// The directions whose columns [`Point::columns`] holds.
    pub fn directions(&self) -> &Directions {
        &self.evaluated().0
    }

    /// The chosen columns, computed once.
    pub fn columns(&self) -> Columns {
        let (directions, dual) = self.evaluated();
        let [samples, dx] = dual.value.dims();
        Columns { values: dual.tangents.clone().reshape([directions.count(), samples, dx]), scale: directions.scale() }
    }

    /// `g(z) [N, dx]`, when the columns have been computed (it comes with them).
    pub fn output_with_columns(&self) -> Option<Tensor<2>> {
        self.columns.get().map(|(_, dual)| dual.value.clone())
    }

    fn evaluated(&self) -> &(Directions, Dual<2>) {
        self.columns.get_or_init(|| {
            let directions = Directions::choose(self.choice, &self.latents, self.pins.clone(), &mut self.stream.borrow_mut());
            let dual = jacobian::columns(self.generator, self.latents.clone(), &directions);
            (directions, dual)
        })
    }

    /// `J v [N, dx]` along `v [N, dz]`.
    pub fn project(&self, v: Tensor<2>) -> Tensor<2> {
        jacobian::project(self.generator, self.latents.clone(), v).tangents
    }

    /// `g(z) [N, dx]` anywhere.
    pub fn output(&self, z: Tensor<2>) -> Tensor<2> {
        self.generator.apply(z)
    }

    /// Independent ±1 entries times the pins, drawn anew at each call: `[N, dz]`.
    pub fn rademacher(&self) -> Tensor<2> {
        let shape = self.latents.dims();
        let mut stream = self.stream.borrow_mut();
        let signs: Vec<f32> = (0..shape[0] * shape[1]).map(|_| if stream.random::<bool>() { 1.0 } else { -1.0 }).collect();
        let v = Tensor::<2>::from_data(TensorData::new(signs, shape), &self.latents.device());
        match &self.pins {
            Some(pins) => v * pins.clone().unsqueeze::<2>(),
            None => v,
        }
    }

    /// The pinned unit direction of latent j for every sample: `[N, dz]`.
    pub fn unit(&self, j: usize) -> Tensor<2> {
        let [samples, dz] = self.latents.dims();
        let mut row = vec![0.0_f32; dz];
        row[j] = 1.0;
        let unit = Tensor::<1>::from_data(TensorData::new(row, [dz]), &self.latents.device());
        let pinned = match &self.pins {
            Some(pins) => unit * pins.clone(),
            None => unit,
        };
        pinned.unsqueeze::<2>().expand([samples, dz])
    }
}
