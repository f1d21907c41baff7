//! What needs no dictionary: the share of tokens that k principal components, and k random directions, explain.
//!
//! With covariance C of the tokens, eigenvalues `λ_1 ≥ … ≥ λ_d`: the NMSE of
//! the best linear code of rank k is `1 − Σ_{i≤k} λ_i / Σ_i λ_i`, and that of
//! an orthonormal basis Q of k random directions is `1 − tr(QᵀCQ)/tr C`, about
//! `1 − k/d`. A dictionary with k active latents should be far below both.
//!
//! # Source
//! Pearson 1901 (principal components); random directions as the null of learned ones: Heap et al. 2025, arXiv 2501.17727.

use burn::tensor::{Device, Tensor};
use rand_distr::{Distribution, StandardNormal};
use sememe_truth::Matrix;
use sememe_truth::random::stream;
use serde::{Deserialize, Serialize};

use crate::dictionary::{Dictionary, DictionaryError, DictionaryKind, RawWeights, TopK, Widths};

/// Sums of tokens and of their products.
#[derive(Clone, Debug)]
pub struct Covariance {
    tokens: u64,
    sum: Vec<f64>,
    products: Matrix,
}

/// NMSE of codes that were not learned, with k numbers a token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nulls {
    /// Numbers a token.
    pub k: usize,
    /// Of the k first principal components.
    pub pca_nmse: f64,
    /// Of k random orthonormal directions.
    pub random_nmse: f64,
}

impl Covariance {
    /// Nothing seen yet, of width `d`.
    pub fn new(d: usize) -> Self {
        Self { tokens: 0, sum: vec![0.0; d], products: Matrix::zeros(d, d) }
    }

    /// Takes in `x [N, d]`.
    ///
    /// # Panics
    /// When the width is another.
    pub fn accumulate(&mut self, x: &Tensor<2>) {
        let [rows, d] = x.dims();
        assert_eq!(d, self.sum.len(), "width of the batch");
        let values: Vec<f32> = x.to_data().iter().collect();
        let x = Matrix::from_fn(rows, d, |i, j| f64::from(values[i * d + j]));
        self.products += x.transpose() * &x;
        for (j, sum) in self.sum.iter_mut().enumerate() {
            *sum += (0..rows).map(|i| x[(i, j)]).sum::<f64>();
        }
        self.tokens += rows as u64;
    }

    /// Adds what another accumulated over other tokens.
    pub fn merge(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.sum.iter_mut().zip(&other.sum).for_each(|(a, b)| *a += b);
        self.products += &other.products;
    }

    /// C `[d, d]`.
    pub fn matrix(&self) -> Matrix {
        let tokens = self.tokens.max(1) as f64;
        let d = self.sum.len();
        Matrix::from_fn(d, d, |i, j| self.products[(i, j)] / tokens - self.sum[i] * self.sum[j] / tokens / tokens)
    }

    /// The nulls for k numbers a token; `None` when the eigenvalues cannot be found (numbers that are not finite).
    pub fn nulls(&self, k: usize, seed: u64) -> Option<Nulls> {
        let (c, d) = (self.matrix(), self.sum.len());
        let k = k.min(d);
        let total: f64 = (0..d).map(|i| c[(i, i)]).sum();
        let mut eigenvalues = c.self_adjoint_eigenvalues(faer::Side::Lower).ok()?;
        eigenvalues.sort_by(|a, b| b.total_cmp(a));
        let draw = &mut stream(seed, "null/directions");
        let random = Matrix::from_fn(d, k, |_, _| StandardNormal.sample(draw));
        let q = random.qr().compute_thin_Q();
        let along = q.transpose() * &c * &q;
        Some(Nulls {
            k,
            pca_nmse: (1.0 - eigenvalues[..k].iter().sum::<f64>() / total).max(0.0),
            random_nmse: (1.0 - (0..k).map(|i| along[(i, i)]).sum::<f64>() / total).max(0.0),
        })
    }
}

impl Covariance {
    /// The mean of the tokens `[d]`.
    pub fn mean(&self) -> Vec<f64> {
        self.sum.iter().map(|sum| sum / self.tokens.max(1) as f64).collect()
    }

    /// The k first principal components, a row each `[k, d]`; `None` when they cannot be found (numbers that are not finite).
    pub fn principal_components(&self, k: usize) -> Option<Matrix> {
        let d = self.sum.len();
        let eigen = self.matrix().self_adjoint_eigen(faer::Side::Lower).ok()?;
        // Eigenvalues come in rising order.
        Some(Matrix::from_fn(k.min(d), d, |i, j| eigen.U()[(j, d - 1 - i)]))
    }

    /// k random orthonormal directions, a row each `[k, d]`.
    pub fn random_directions(&self, k: usize, seed: u64) -> Matrix {
        let d = self.sum.len();
        let draw = &mut stream(seed, "null/directions");
        let random = Matrix::from_fn(d, k.min(d), |_, _| StandardNormal.sample(draw));
        random.qr().compute_thin_Q().transpose().to_owned()
    }
}

/// The linear code of k orthonormal `directions [k, d]` around `mean` as a dictionary: latents come in pairs of opposite
/// directions, of which k are active, so that `x̂ = mean + Σ_i (v_i·(x − mean)) v_i`.
///
/// # Errors
/// No directions at all.
pub fn linear_dictionary(directions: &Matrix, mean: &[f64], device: &Device) -> Result<Dictionary, DictionaryError> {
    let (k, d) = (directions.nrows(), directions.ncols());
    let rows: Vec<f32> = [1.0, -1.0]
        .into_iter()
        .flat_map(|sign| (0..k).flat_map(move |i| (0..d).map(move |j| (sign * directions[(i, j)]) as f32)))
        .collect();
    let raw = RawWeights {
        hidden: None,
        widths: Widths::same(d),
        w_enc: rows.clone(),
        b_enc: vec![0.0; 2 * k],
        w_dec: rows,
        b_dec: mean.iter().map(|mean| *mean as f32).collect(),
        threshold: None,
        r_mag: None,
        b_mag: None,
        w_skip: None,
    };
    Dictionary::from_raw(DictionaryKind::TopK(TopK { n: 2 * k, k, ..TopK::default() }), raw, device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Distribution;

    /// Independent coordinates of variances 9, 1, 1, 1: one component explains 9 of 12; all four explain everything.
    #[test]
    fn nulls_of_a_known_spectrum() {
        let device = Device::flex();
        let scale = Tensor::<2>::from_floats([[3.0, 1.0, 1.0, 1.0]], &device);
        let mut seen = Covariance::new(4);
        let mut second = Covariance::new(4);
        for part in [&mut seen, &mut second] {
            part.accumulate(&(Tensor::<2>::random([4000, 4], Distribution::Normal(0.0, 1.0), &device) * scale.clone() + 5.0));
        }
        seen.merge(&second);
        let one = seen.nulls(1, 0).expect("finite");
        assert!((one.pca_nmse - 0.25).abs() < 0.02, "{one:?}");
        let all = seen.nulls(4, 0).expect("finite");
        assert!(all.pca_nmse < 1e-9 && all.random_nmse < 1e-9, "{all:?}");
        let mean = (0..200).map(|seed| seen.nulls(1, seed).expect("finite").random_nmse).sum::<f64>() / 200.0;
        assert!((mean - 0.75).abs() < 0.05, "{mean}");
    }

    /// The linear code as a dictionary has the error that the eigenvalues say.
    #[test]
    fn a_linear_code_as_a_dictionary() {
        let device = Device::flex();
        let scale = Tensor::<2>::from_floats([[3.0, 1.0, 2.0, 1.0]], &device);
        let x = Tensor::<2>::random([500, 4], Distribution::Normal(0.0, 1.0), &device) * scale + 5.0;
        let mut seen = Covariance::new(4);
        seen.accumulate(&x);
        let expected = seen.nulls(2, 3).expect("finite");
        let nmse = |directions: &Matrix| {
            let dictionary = linear_dictionary(directions, &seen.mean(), &device).expect("fits");
            let mut scores = crate::dictionary::metric::Reconstruction::new(4, 4);
            let codes = dictionary.codes(x.clone());
            scores.accumulate(&x, &dictionary.decode(&codes, &x), &codes, None);
            scores.finish().nmse
        };
        assert!((nmse(&seen.principal_components(2).expect("finite")) - expected.pca_nmse).abs() < 1e-5);
        assert!((nmse(&seen.random_directions(2, 3)) - expected.random_nmse).abs() < 1e-5);
    }
}
