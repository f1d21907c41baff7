//! The one number by which activations are scaled for training, and how it is folded into the weights afterwards.
//!
//! `s = √d / mean ‖x‖`, so that `s x` has mean norm √d, is estimated over many
//! batches. A dictionary D that was trained on `s_in x → s_out y` becomes one
//! on `x → y` with the same reconstruction, `D′(x) = D(s_in x)/s_out`:
//!
//! `b_enc, b_mag, θ ← …/s_in`, `b_dec ← b_dec/s_out`, `W_dec ← W_dec · s_in/s_out`, `W_skip ← W_skip · s_in/s_out`.
//!
//! Its codes are those of D divided by s_in. With `s_in = s_out` the rows of
//! the decoder keep their norms.
//!
//! # Source
//! Conerly et al. 2024, *Update on how we train SAEs*, on dataset-wise normalisation; the algebra is by homogeneity of σ.

use burn::module::Param;
use burn::tensor::Tensor;

use super::Dictionary;

/// A running mean of ‖x‖ over batches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScaleEstimate {
    sum: f64,
    tokens: usize,
}

impl ScaleEstimate {
    /// Takes in a batch `x [N, d]`.
    pub fn observe(&mut self, x: &Tensor<2>) {
        let norms = (x.clone() * x.clone()).sum_dim(1).sqrt();
        self.sum += norms.into_data().iter::<f32>().map(f64::from).sum::<f64>();
        self.tokens += x.dims()[0];
    }

    /// s for activations of width d; 1 when nothing, or only zeros, were seen.
    pub fn scale(&self, d: usize) -> f64 {
        if self.sum > 0.0 { (d as f64).sqrt() * self.tokens as f64 / self.sum } else { 1.0 }
    }
}

/// Changes the parameter's value and keeps it a parameter.
fn change<const D: usize>(parameter: &mut Param<Tensor<D>>, to: impl FnOnce(Tensor<D>) -> Tensor<D>) {
    *parameter = parameter.clone().map(|value| {
        let tracked = value.is_require_grad();
        let value = to(value.detach());
        if tracked { value.require_grad() } else { value }
    });
}

fn times<const D: usize>(parameter: &mut Param<Tensor<D>>, factor: f64) {
    change(parameter, |value| value * factor);
}

impl Dictionary {
    /// The dictionary for unscaled activations, of one that was trained on `diag(input) x → diag(output) y`, such as several
    /// layers each with a scale of its own: `W_enc ← W_enc diag(input)`, `W_dec ← W_dec / diag(output)`,
    /// `b_dec ← b_dec / output`, `W_skip ← W_skip diag(input) / output`. Its codes are the same.
    ///
    /// # Panics
    /// When `b_dec` is subtracted from the input, or a factor is missing.
    #[must_use]
    pub fn fold_columns(mut self, input: &[f64], output: &[f64]) -> Self {
        assert!(!self.kind.member().form().centred, "an autoencoder has one scale");
        assert_eq!((input.len(), output.len()), (self.widths().input, self.widths().output), "one factor a column");
        let device = self.b_dec.val().device();
        let device = if device.is_autodiff() { device.inner() } else { device };
        let row = |factors: Vec<f32>| Tensor::<1>::from_floats(factors.as_slice(), &device);
        let input = row(input.iter().map(|factor| *factor as f32).collect());
        let inverse = row(output.iter().map(|factor| (1.0 / factor) as f32).collect());
        let like = |factors: &Tensor<1>, value: &Tensor<2>| {
            if value.device().is_autodiff() { Tensor::from_inner(factors.clone()) } else { factors.clone() }
        };
        change(&mut self.w_enc, |value| value.clone() * like(&input, &value).unsqueeze_dim::<2>(0));
        change(&mut self.w_dec, |value| value.clone() * like(&inverse, &value).unsqueeze_dim::<2>(0));
        change(&mut self.b_dec, |value| value.clone() * like(&inverse, &value.unsqueeze_dim::<2>(0)));
        if let Some(skip) = &mut self.w_skip {
            change(skip, |value| {
                let (rows, columns) = (like(&inverse, &value).unsqueeze_dim::<2>(1), like(&input, &value).unsqueeze_dim::<2>(0));
                value * rows * columns
            });
        }
        self
    }

    /// The dictionary for unscaled activations, of this one that was trained on `input_scale · x → output_scale · y`.
    ///
    /// # Panics
    /// When the scales differ although `b_dec` is subtracted from the input, which is then the output too.
    #[must_use]
    pub fn fold_scale(mut self, input_scale: f64, output_scale: f64) -> Self {
        assert!(input_scale == output_scale || !self.kind.member().form().centred, "an autoencoder has one scale");
        let inverse = 1.0 / input_scale;
        times(&mut self.b_enc, inverse);
        times(&mut self.b_dec, 1.0 / output_scale);
        for vector in [&mut self.b_mag, &mut self.threshold].into_iter().flatten() {
            times(vector, inverse);
        }
        self.memory.divide_threshold(input_scale);
        if let Some(hidden) = &mut self.hidden {
            times(&mut hidden.w_in, input_scale);
            times(&mut hidden.w_out, 1.0 / output_scale);
        }
        if input_scale != output_scale {
            times(&mut self.w_dec, input_scale / output_scale);
            if let Some(skip) = &mut self.w_skip {
                times(skip, input_scale / output_scale);
            }
        }
        self
    }
}
