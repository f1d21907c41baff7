//! The data of a run: observed variables to train on and to test on, and the truth about them where it is known.

use burn::tensor::{Device, Tensor, TensorData};
use sememe_truth::Matrix;
use sememe_truth::random::stream;
use sememe_truth::structure::Support;
use sememe_truth::world::Generator;

use super::config::Config;
use crate::error::RunError;
use crate::source;

/// Observed variables and truth, split into training and test samples.
pub struct Dataset {
    /// Training samples `[N, dx]`, standardised if the config says so.
    pub train: Matrix,
    /// Test samples `[M, dx]`, by the same statistics.
    pub test: Matrix,
    /// True latents of the test samples `[M, dz]`.
    pub test_latents: Option<Matrix>,
    /// The true dependency structure.
    pub support: Option<Support>,
    /// `[C, H, W]` when the observed variables are pixels.
    pub image_shape: Option<[usize; 3]>,
    /// Names of the true latents, empty when unknown.
    pub factors: Vec<String>,
    /// The world's generator, for its exact Jacobian.
    pub generator: Option<Box<dyn Generator>>,
    /// Standard deviation by which each observed variable was divided.
    pub scale: Vec<f64>,
}

impl Dataset {
    /// Makes or reads the data that the config describes.
    pub fn load(config: &Config) -> Result<Self, RunError> {
        let mut data = match &config.data.world {
            Some(world) => {
                let generator = world.member().build(config.data_seed())?;
                let train = generator.sample(config.data.samples, &mut stream(config.data_seed(), "data/train"));
                let test = generator.sample(config.data.test_samples, &mut stream(config.data_seed(), "data/test"));
                Self {
                    train: train.observed,
                    test: test.observed,
                    test_latents: Some(test.latents),
                    support: generator.support(),
                    image_shape: generator.image_shape(),
                    factors: generator.factors(),
                    scale: Vec::new(),
                    generator: Some(generator),
                }
            }
            None => Self::from_files(config)?,
        };
        data.scale = vec![1.0; data.train.ncols()];
        if config.data.standardise && data.image_shape.is_none() {
            data.standardise();
        }
        Ok(data)
    }

    fn from_files(config: &Config) -> Result<Self, RunError> {
        let path = config.data.file.clone().unwrap_or_default();
        let array = source::read(&path, config.data.key.as_deref())?;
        let (wanted, there) = (config.data.samples + config.data.test_samples, array.matrix.nrows());
        if wanted > there {
            return Err(RunError::Data(format!(
                "{}: {there} samples, but `data.samples` + `data.test_samples` ask for {wanted}; lower them",
                path.display()
            )));
        }
        let latents = config.data.latents_file.as_ref().map(|path| source::read(path, None)).transpose()?;
        if let (Some(latents), Some(path)) = (&latents, &config.data.latents_file)
            && latents.matrix.nrows() != there
        {
            return Err(RunError::Data(format!(
                "{}: {} rows, but the data have {there}; give one row a sample",
                path.display(),
                latents.matrix.nrows()
            )));
        }
        let support = config.data.support_file.as_ref().map(|path| source::read_support(path)).transpose()?;
        if let (Some(support), Some(path)) = (&support, &config.data.support_file)
            && support.rows() != array.matrix.ncols()
        {
            return Err(RunError::Data(format!(
                "{}: {} rows, but the data have {} observed variables; give one row each",
                path.display(),
                support.rows(),
                array.matrix.ncols()
            )));
        }
        let rows = |matrix: &Matrix, from: usize, count: usize| matrix.subrows(from, count).to_owned();
        let (n, m) = (config.data.samples, config.data.test_samples);
        let image_shape = match array.shape[..] {
            [_, height, width] => Some([1, height, width]),
            [_, channels, height, width] => Some([channels, height, width]),
            _ => None,
        };
        Ok(Self {
            train: rows(&array.matrix, 0, n),
            test: rows(&array.matrix, n, m),
            factors: latents.as_ref().and_then(|latents| latents.names.clone()).unwrap_or_default(),
            test_latents: latents.map(|latents| rows(&latents.matrix, n, m)),
            support,
            image_shape,
            generator: None,
            scale: Vec::new(),
        })
    }

    /// Mean 0 and variance 1 by the statistics of the training samples; a constant variable is only centred.
    fn standardise(&mut self) {
        let n = self.train.nrows() as f64;
        for j in 0..self.train.ncols() {
            let mean = self.train.col(j).iter().sum::<f64>() / n;
            let variance = self.train.col(j).iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let scale = if variance > 0.0 { variance.sqrt() } else { 1.0 };
            for matrix in [&mut self.train, &mut self.test] {
                for i in 0..matrix.nrows() {
                    matrix[(i, j)] = (matrix[(i, j)] - mean) / scale;
                }
            }
            self.scale[j] = scale;
        }
    }
}

/// A matrix as a tensor of single precision.
pub fn to_tensor(matrix: &Matrix, device: &Device) -> Tensor<2> {
    let shape = [matrix.nrows(), matrix.ncols()];
    let values: Vec<f32> = (0..shape[0]).flat_map(|i| (0..shape[1]).map(move |j| matrix[(i, j)] as f32)).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// A tensor as a matrix.
pub fn to_matrix(tensor: Tensor<2>) -> Matrix {
    let [rows, columns] = tensor.dims();
    let values: Vec<f32> = tensor.into_data().iter::<f32>().collect();
    Matrix::from_fn(rows, columns, |i, j| f64::from(values[i * columns + j]))
}
