//! The weights that all dictionaries share, how they begin, and what they compute.
//!
//! Beginning: decoder rows are random directions of norm 1; the encoder is
//! the same matrix where input and output are the same activations, so that
//! `W_enc = W_decᵀ`; biases are 0.
//!
//! # Source
//! Gao et al. 2024, arXiv 2406.04093, appendix A.1 (encoder from decoder, unit rows).

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData, activation};
use rand_distr::{Distribution, StandardNormal};
use sememe_kernels::{Activation, Choice, Precision, activate, encode_top, row_norms, sparse_encode};
use sememe_truth::random::stream;

use super::{Codes, DENSE_FROM, DictionaryError, DictionaryKind, Memory};

/// Widths of the activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// d_in, over all layers together.
    pub input: usize,
    /// d_out, over all layers together.
    pub output: usize,
}

impl Widths {
    /// Input and output are the same activations of width d.
    pub fn same(d: usize) -> Self {
        Self { input: d, output: d }
    }
}

/// What weights a member has, and what constrains them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// Decoder rows have norm 1.
    pub unit_rows: bool,
    /// `b_dec` is subtracted before the encoder.
    pub centred: bool,
    /// θ at the start, where latents have thresholds.
    pub threshold: Option<f64>,
    /// Whether there are `r_mag` and `b_mag` beside `b_enc`, which is then the gate's bias.
    pub gate: bool,
    /// Whether there is a linear path from input to output.
    pub skip: bool,
    /// Layers whose activations stand side by side.
    pub layers: usize,
    /// Units of the nonlinear part of the decoder, and their φ.
    pub hidden: Option<(usize, Activation)>,
}

impl Default for Form {
    fn default() -> Self {
        Self { unit_rows: true, centred: true, threshold: None, gate: false, skip: false, layers: 1, hidden: None }
    }
}

/// The nonlinear part of a decoder: `φ(z W_in + b_in) W_out`.
#[derive(Module, Debug)]
pub struct HiddenDecoder {
    /// `[n, h]`.
    pub w_in: Param<Tensor<2>>,
    /// `[h]`.
    pub b_in: Param<Tensor<1>>,
    /// `[h, d_out]`.
    pub w_out: Param<Tensor<2>>,
    /// φ.
    #[module(skip)]
    pub phi: Activation,
}

impl HiddenDecoder {
    fn new(n: usize, (units, phi): (usize, Activation), output: usize, seed: u64, device: &Device) -> Self {
        let mut draw = stream(seed, "dictionary/hidden");
        let mut matrix = |rows: usize, columns: usize, scale: f32| {
            let values = (0..rows * columns).map(|_| -> f32 { StandardNormal.sample(&mut draw) }).map(|v: f32| v * scale).collect();
            parameter(values, [rows, columns], device)
        };
        // Its output begins small beside the linear part.
        let (w_in, w_out) = (matrix(n, units, 0.1), matrix(units, output, 0.1 / (units as f32).sqrt()));
        Self { w_in, b_in: parameter(vec![0.0; units], [units], device), w_out, phi }
    }

    /// `z W_in + b_in`: `[N, h]`.
    pub fn pre(&self, codes: &Codes) -> Tensor<2> {
        codes.times(self.w_in.val()) + self.b_in.val().unsqueeze_dim::<2>(0)
    }
}

/// A dictionary.
#[derive(Module, Debug)]
pub struct Dictionary {
    /// `[n, d_in]`, a row a latent: the rows of active latents are contiguous.
    pub w_enc: Param<Tensor<2>>,
    /// `[n]`; the bias of the gate in a gated dictionary.
    pub b_enc: Param<Tensor<1>>,
    /// `[n, d_out]`.
    pub w_dec: Param<Tensor<2>>,
    /// `[d_out]`.
    pub b_dec: Param<Tensor<1>>,
    /// θ `[n]`, in single precision always.
    pub threshold: Option<Param<Tensor<1>>>,
    /// `[n]`, logarithm of the magnitudes' scale against the gate's.
    pub r_mag: Option<Param<Tensor<1>>>,
    /// `[n]`.
    pub b_mag: Option<Param<Tensor<1>>>,
    /// `[d_out, d_in]`.
    pub w_skip: Option<Param<Tensor<2>>>,
    /// What the decoder has beside its linear part.
    pub hidden: Option<HiddenDecoder>,
    /// The member.
    #[module(skip)]
    pub kind: DictionaryKind,
    /// How the product that chooses active latents is formed.
    #[module(skip)]
    pub precision: Precision,
    /// The share of latents that may be active from which on codes of no fixed number are formed as a matrix.
    #[module(skip)]
    pub dense_from: f64,
    /// What training remembers.
    #[module(skip)]
    pub memory: Memory,
}

fn parameter<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), device))
}

/// `rows` random directions of norm 1: `[rows, width]`.
fn directions(rows: usize, width: usize, draw: &mut sememe_truth::random::Stream) -> Vec<f32> {
    let mut values: Vec<f32> = (0..rows * width).map(|_| StandardNormal.sample(draw)).collect();
    for row in values.chunks_mut(width) {
        let norm = row.iter().map(|v| v * v).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        row.iter_mut().for_each(|v| *v /= norm);
    }
    values
}

/// Weights as plain numbers, row after row, as they stand in files.
#[derive(Clone, Debug, PartialEq)]
pub struct RawWeights {
    /// d_in and d_out.
    pub widths: Widths,
    /// `[n, d_in]`.
    pub w_enc: Vec<f32>,
    /// `[n]`.
    pub b_enc: Vec<f32>,
    /// `[n, d_out]`.
    pub w_dec: Vec<f32>,
    /// `[d_out]`.
    pub b_dec: Vec<f32>,
    /// `[n]`.
    pub threshold: Option<Vec<f32>>,
    /// `[n]`.
    pub r_mag: Option<Vec<f32>>,
    /// `[n]`.
    pub b_mag: Option<Vec<f32>>,
    /// `[d_out, d_in]`.
    pub w_skip: Option<Vec<f32>>,
    /// `w_in [n, h]`, `b_in [h]` and `w_out [h, d_out]` of a nonlinear decoder.
    pub hidden: Option<[Vec<f32>; 3]>,
}

impl RawWeights {
    /// n.
    pub fn n(&self) -> usize {
        self.b_enc.len()
    }

    /// Adds `sign · W_enc b_dec` to the encoder's biases: with 1, the encoder of `x` becomes one of `x − b_dec`
    /// with the same pre-activations; with −1, the other way.
    #[must_use]
    pub fn moved_centre(mut self, sign: f64) -> Self {
        let d = self.widths.input;
        let moved: Vec<f64> = self
            .w_enc
            .chunks(d.max(1))
            .map(|row| sign * row.iter().zip(&self.b_dec).map(|(w, b)| f64::from(*w) * f64::from(*b)).sum::<f64>())
            .collect();
        let scales = self.r_mag.clone();
        let add = |bias: &mut Vec<f32>, scale: &dyn Fn(usize) -> f64| {
            bias.iter_mut().zip(&moved).enumerate().for_each(|(i, (bias, moved))| *bias = (f64::from(*bias) + scale(i) * moved) as f32);
        };
        add(&mut self.b_enc, &|_| 1.0);
        if let Some(b_mag) = &mut self.b_mag {
            add(b_mag, &|i| scales.as_ref().map_or(1.0, |r| f64::from(r[i]).exp()));
        }
        self
    }
}

/// `(x − c) Wᵀ`, `weight [rows, d]`: `[N, rows]`.
///
/// The gradient in c is `−W Σ_t g_t`: through the product it would be formed
/// for each t and summed afterwards, at the cost of another product. Hence a
/// term of value 0 that alone depends on c.
pub(super) fn product_with(x: Tensor<2>, centre: Tensor<1>, weight: Tensor<2>) -> Tensor<2> {
    let fixed = centre.clone().detach();
    let product = (x - fixed.clone().unsqueeze_dim::<2>(0)).matmul(weight.clone().transpose());
    if !product.device().is_autodiff() {
        return product;
    }
    let moved = weight.detach().matmul((fixed - centre).unsqueeze_dim::<2>(1));
    product + moved.transpose()
}

impl Dictionary {
    /// A dictionary with these weights.
    ///
    /// # Errors
    /// The first setting that makes no sense, or the first weight that is missing or of another size.
    pub fn from_raw(kind: DictionaryKind, raw: RawWeights, device: &Device) -> Result<Self, DictionaryError> {
        let (tag, member) = (kind.tag(), kind.member());
        member.check(raw.widths)?;
        let (n, form, widths) = (member.n(), member.form(), raw.widths);
        let sized = |key: &'static str, values: Option<Vec<f32>>, expected: usize| match values {
            Some(values) if values.len() == expected => Ok(values),
            found => Err(DictionaryError {
                dictionary: tag,
                key,
                got: found.map_or("missing".into(), |values| format!("of {} numbers", values.len())),
                expected: format!("give {expected} numbers"),
            }),
        };
        let vector =
            |key, values, wanted: bool| wanted.then(|| sized(key, values, n).map(|values| parameter(values, [n], device))).transpose();
        let hidden = form.hidden.map(|(units, phi)| {
            let [w_in, b_in, w_out] = raw.hidden.map_or([None, None, None], |parts| parts.map(Some));
            Ok(HiddenDecoder {
                w_in: parameter(sized("hidden.w_in", w_in, n * units)?, [n, units], device),
                b_in: parameter(sized("hidden.b_in", b_in, units)?, [units], device),
                w_out: parameter(sized("hidden.w_out", w_out, units * widths.output)?, [units, widths.output], device),
                phi,
            })
        });
        let hidden = hidden.transpose()?;
        let skip = form.skip.then(|| sized("w_skip", raw.w_skip, widths.output * widths.input)).transpose()?;
        Ok(Self {
            w_enc: parameter(sized("w_enc", Some(raw.w_enc), n * widths.input)?, [n, widths.input], device),
            b_enc: parameter(sized("b_enc", Some(raw.b_enc), n)?, [n], device),
            w_dec: parameter(sized("w_dec", Some(raw.w_dec), n * widths.output)?, [n, widths.output], device),
            b_dec: parameter(sized("b_dec", Some(raw.b_dec), widths.output)?, [widths.output], device),
            threshold: vector("threshold", raw.threshold, form.threshold.is_some())?,
            r_mag: vector("r_mag", raw.r_mag, form.gate)?,
            b_mag: vector("b_mag", raw.b_mag, form.gate)?,
            w_skip: skip.map(|values| parameter(values, [widths.output, widths.input], device)),
            hidden,
            precision: Precision::Single,
            dense_from: DENSE_FROM,
            memory: Memory::new(n),
            kind,
        })
    }

    /// The weights as plain numbers.
    pub fn raw(&self) -> RawWeights {
        fn read<const R: usize>(parameter: &Param<Tensor<R>>) -> Vec<f32> {
            parameter.val().to_data().iter::<f32>().collect()
        }
        RawWeights {
            widths: self.widths(),
            w_enc: read(&self.w_enc),
            b_enc: read(&self.b_enc),
            w_dec: read(&self.w_dec),
            b_dec: read(&self.b_dec),
            threshold: self.threshold.as_ref().map(read),
            r_mag: self.r_mag.as_ref().map(read),
            b_mag: self.b_mag.as_ref().map(read),
            w_skip: self.w_skip.as_ref().map(read),
            hidden: self.hidden.as_ref().map(|hidden| [read(&hidden.w_in), read(&hidden.b_in), read(&hidden.w_out)]),
        }
    }

    /// An untrained dictionary.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn new(kind: DictionaryKind, widths: Widths, seed: u64, device: &Device) -> Result<Self, DictionaryError> {
        let member = kind.member();
        member.check(widths)?;
        let (n, form) = (member.n(), member.form());
        let decoder = directions(n, widths.output, &mut stream(seed, "dictionary/decoder"));
        let encoder = if form.centred && widths.input == widths.output {
            decoder.clone()
        } else {
            directions(n, widths.input, &mut stream(seed, "dictionary/encoder"))
        };
        let zeros = |count: usize| parameter(vec![0.0; count], [count], device);
        Ok(Self {
            w_enc: parameter(encoder, [n, widths.input], device),
            b_enc: zeros(n),
            w_dec: parameter(decoder, [n, widths.output], device),
            b_dec: zeros(widths.output),
            threshold: form.threshold.map(|threshold| parameter(vec![threshold as f32; n], [n], device)),
            r_mag: form.gate.then(|| zeros(n)),
            b_mag: form.gate.then(|| zeros(n)),
            w_skip: form.skip.then(|| parameter(vec![0.0; widths.output * widths.input], [widths.output, widths.input], device)),
            hidden: form.hidden.map(|hidden| HiddenDecoder::new(n, hidden, widths.output, seed, device)),
            precision: Precision::Single,
            dense_from: DENSE_FROM,
            memory: Memory::new(n),
            kind,
        })
    }

    /// n.
    pub fn n(&self) -> usize {
        self.b_enc.val().dims()[0]
    }

    /// d_in and d_out.
    pub fn widths(&self) -> Widths {
        Widths { input: self.w_enc.val().dims()[1], output: self.w_dec.val().dims()[1] }
    }

    /// What the encoder subtracts: `b_dec`, or 0: `[d_in]`.
    pub fn centre(&self) -> Tensor<1> {
        if self.kind.member().form().centred { self.b_dec.val() } else { Tensor::zeros([self.widths().input], &self.b_dec.val().device()) }
    }

    /// `(x − b_dec) W_encᵀ`, without bias: `[N, n]`.
    pub fn product(&self, x: Tensor<2>) -> Tensor<2> {
        product_with(x, self.centre(), self.w_enc.val())
    }

    /// `(x − b_dec) W_encᵀ + b_enc`: `[N, n]`.
    pub fn pre_activations(&self, x: Tensor<2>) -> Tensor<2> {
        self.product(x) + self.b_enc.val().unsqueeze_dim::<2>(0)
    }

    /// The codes that `choice` makes active, with gradients to all weights.
    pub fn choose(&self, x: Tensor<2>, choice: &Choice) -> Codes {
        let (centre, weight, bias) = (self.centre(), self.w_enc.val(), self.b_enc.val());
        let (pattern, known) = encode_top(x.clone(), centre.clone(), weight.clone(), bias.clone(), choice, self.precision);
        match self.precision {
            Precision::Single => {
                let values = sparse_encode(x, centre, weight, bias, &pattern, Some(known));
                Codes::Sparse { values, pattern }
            }
            // The rounded product chooses; values and gradients are exact. One that is not positive after all is 0.
            Precision::Bf16 => {
                let values = activation::relu(sparse_encode(x, centre, weight, bias, &pattern, None));
                Codes::Sparse { values, pattern }
            }
        }
    }

    /// The codes of `x [N, d_in]` as they are after training.
    pub fn codes(&self, x: Tensor<2>) -> Codes {
        self.kind.member().codes(self, x)
    }

    /// `z W_dec + b_dec (+ x W_skipᵀ) (+ φ(z W_in + b_in) W_out)`: `[N, d_out]`.
    pub fn decode(&self, codes: &Codes, x: &Tensor<2>) -> Tensor<2> {
        let output = codes.times(self.w_dec.val()) + self.b_dec.val().unsqueeze_dim::<2>(0);
        let output = match &self.hidden {
            Some(hidden) => output + activate(hidden.pre(codes), hidden.phi).matmul(hidden.w_out.val()),
            None => output,
        };
        match &self.w_skip {
            Some(skip) => output + x.clone().matmul(skip.val().transpose()),
            None => output,
        }
    }

    /// x̂ of `x [N, d_in]` after training: `[N, d_out]`.
    pub fn reconstruct(&self, x: Tensor<2>) -> Tensor<2> {
        let codes = self.codes(x.clone());
        self.decode(&codes, &x)
    }

    /// `‖W_dec,i‖` of each latent, summed over the layers: `[n]`.
    pub fn decoder_norms(&self) -> Tensor<1> {
        row_norms(self.w_dec.val(), self.kind.member().form().layers.max(1))
    }

    /// The dictionary without autodiff, for evaluation.
    #[must_use]
    pub fn evaluated(&self) -> Self {
        self.valid()
    }
}
