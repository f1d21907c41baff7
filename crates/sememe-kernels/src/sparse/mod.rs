//! Products with a matrix of which only a few rows take part: decoding sparse codes, encoding at the active latents, and all their gradients.
//!
//! With entries e of row t_e and latent i_e (a [`Pattern`]), values v_e, rows
//! `r [rows, d]` and a matrix `W [n, d]`, everything here is a derivative of
//! the trilinear form
//!
//! `T(v, r, W) = Σ_e v_e · (r[t_e] · W[i_e])`
//!
//! - decode `∂T/∂r = Σ_{e in row t} v_e W[i_e]`            `[rows, d]`
//! - dot    `∂T/∂v = r[t_e] · W[i_e]`                      `[entries]`
//! - outer  `∂T/∂W = Σ_{e of latent i} v_e r[t_e]`         `[n, d]`
//!
//! so the backward pass of each is the other two. Both matrices of a
//! dictionary lie as `[n, d]`: the rows of active latents are contiguous for
//! the decoder and for the encoder, and only they are read. A gradient in W
//! is dense storage of which only the active rows differ from 0.
//!
//! # Source
//! Gao et al. 2024, arXiv 2406.04093, appendix on sparse kernels; here with a gradient to every latent that takes part, dead ones too.

mod dispatch;
mod loops;
mod pattern;
mod plain;

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use crate::dispatch::is_fused;
use dispatch::SparseOps;
pub use pattern::Pattern;

/// `out[t] = Σ_e values_e · dictionary[latent_e]` over the entries e of row t.
///
/// `values [entries]`, `dictionary [n, d]`, result `[rows, d]`; differentiable in both.
///
/// # Panics
/// When a shape does not fit the pattern.
pub fn sparse_decode(values: Tensor<1>, dictionary: Tensor<2>, pattern: &Arc<Pattern>) -> Tensor<2> {
    assert_eq!(values.dims()[0], pattern.entries(), "one value an entry");
    assert_eq!(dictionary.dims()[0], pattern.n(), "one dictionary row a latent");
    if is_fused(&values) && is_fused(&dictionary) {
        Tensor::from_dispatch(Dispatch::sparse_decode(values.into_dispatch(), dictionary.into_dispatch(), pattern.clone()))
    } else {
        plain::decode(values, dictionary, pattern)
    }
}

/// `out_e = (x[t_e] − centre) · weight[latent_e] + bias[latent_e]`: the pre-activations of the active latents alone.
///
/// `x [rows, d]`, `centre [d]`, `weight [n, d]`, `bias [n]`, result
/// `[entries]`; differentiable in all four. `known` are the values where a
/// dense product has already given them; they are then not computed again.
///
/// # Panics
/// When a shape does not fit the pattern.
pub fn sparse_encode(
    x: Tensor<2>,
    centre: Tensor<1>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    pattern: &Arc<Pattern>,
    known: Option<Tensor<1>>,
) -> Tensor<1> {
    assert_eq!(x.dims()[0], pattern.rows(), "one row of x a row of the pattern");
    assert_eq!([weight.dims()[0], bias.dims()[0]], [pattern.n(); 2], "one weight row and one bias a latent");
    assert_eq!([centre.dims()[0], weight.dims()[1]], [x.dims()[1]; 2], "the width of x");
    let fused = is_fused(&x) && is_fused(&centre) && is_fused(&weight) && is_fused(&bias);
    if fused {
        let known = known.unwrap_or_else(|| Tensor::zeros([0], &x.device().inner()));
        Tensor::from_dispatch(Dispatch::sparse_encode(
            x.into_dispatch(),
            centre.into_dispatch(),
            weight.into_dispatch(),
            bias.into_dispatch(),
            known.into_dispatch(),
            pattern.clone(),
        ))
    } else {
        plain::encode(x, centre, weight, bias, pattern)
    }
}

/// `out_e = vector[latent_e]`: a number a latent, at each of its entries.
///
/// `vector [n]`, result `[entries]`; differentiable.
///
/// # Panics
/// When the vector does not have a number a latent.
pub fn sparse_spread(vector: Tensor<1>, pattern: &Arc<Pattern>) -> Tensor<1> {
    assert_eq!(vector.dims()[0], pattern.n(), "one number a latent");
    if is_fused(&vector) {
        Tensor::from_dispatch(Dispatch::sparse_spread(vector.into_dispatch(), pattern.clone()))
    } else {
        plain::spread(vector, pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    fn ragged() -> Arc<Pattern> {
        // Row 1 is empty, row 2 has more entries than the loops unroll, latent 5 is never active.
        Arc::new(Pattern::new(vec![0, 3, 3, 9, 10], vec![0, 2, 6, 0, 1, 2, 3, 4, 6, 2], 7))
    }

    fn close(a: Tensor<1>, b: Tensor<1>) {
        a.into_data().assert_approx_eq::<f32>(&b.into_data(), Tolerance::absolute(2e-5));
    }

    /// Values and all gradients equal those of ordinary operations, at widths that do and do not divide by the lanes.
    #[test]
    fn fused_equals_plain() {
        let device = Device::flex().autodiff();
        let draw = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device);
        let draw1 = |n: usize| Tensor::<1>::random([n], Distribution::Normal(0.0, 1.0), &device);
        let pattern = ragged();
        for width in [1, 5, 32, 75] {
            let (x, weight) = (draw([4, width]).require_grad(), draw([7, width]).require_grad());
            let dictionary = draw([7, width]).require_grad();
            let (centre, bias) = (draw1(width).require_grad(), draw1(7).require_grad());
            let upstream = draw([4, width]);
            let total = |values: Tensor<1>, fused: bool| {
                let out = if fused {
                    sparse_decode(values, dictionary.clone(), &pattern)
                } else {
                    plain::decode(values, dictionary.clone(), &pattern)
                };
                (out * upstream.clone()).sum()
            };
            let by_plain = || plain::encode(x.clone(), centre.clone(), weight.clone(), bias.clone(), &pattern);
            for known in [None, Some(by_plain().inner())] {
                let plain_values = by_plain();
                let values = sparse_encode(x.clone(), centre.clone(), weight.clone(), bias.clone(), &pattern, known);
                close(values.clone().inner(), plain_values.clone().inner());
                let by_fused = total(values, true).backward();
                let by_plain = total(plain_values.clone(), false).backward();
                let flat = |t: Option<Tensor<2>>| t.expect("a gradient").flatten::<1>(0, 1);
                for tensor in [&x, &weight, &dictionary] {
                    close(flat(tensor.grad(&by_fused)), flat(tensor.grad(&by_plain)));
                }
                for tensor in [&centre, &bias] {
                    close(tensor.grad(&by_fused).expect("a gradient"), tensor.grad(&by_plain).expect("a gradient"));
                }
            }
        }
    }

    /// A number a latent stands at its entries; its gradient is the sum over them.
    #[test]
    fn spread_by_hand() {
        let device = Device::flex().autodiff();
        let vector = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], &device).require_grad();
        let upstream = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0], &device);
        for out in [sparse_spread(vector.clone(), &ragged()), plain::spread(vector.clone(), &ragged())] {
            assert_eq!(out.to_data().iter::<f32>().collect::<Vec<_>>(), [1.0, 3.0, 7.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 3.0]);
            let gradients = (out * upstream.clone()).sum().backward();
            let gradient = vector.grad(&gradients).expect("a gradient").into_data();
            assert_eq!(gradient.iter::<f32>().collect::<Vec<_>>(), [5.0, 5.0, 18.0, 7.0, 8.0, 0.0, 12.0]);
        }
    }

    #[test]
    fn decode_by_hand() {
        let device = Device::flex();
        let pattern = Arc::new(Pattern::new(vec![0, 2, 3], vec![0, 2, 1], 3));
        let dictionary = Tensor::<2>::from_floats([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]], &device);
        let out = sparse_decode(Tensor::from_floats([2.0, -1.0, 4.0], &device), dictionary, &pattern);
        out.into_data().assert_eq(&Tensor::<2>::from_floats([[0.0, -3.0], [0.0, 4.0]], &device).into_data(), true);
    }

    /// Gradients are then 0, not absent: an optimiser with momentum tells the two apart.
    #[test]
    fn a_pattern_without_entries_gives_zeros() {
        let device = Device::flex().autodiff();
        let pattern = Arc::new(Pattern::new(vec![0, 0, 0], vec![], 3));
        let (weight, bias) = (Tensor::<2>::ones([3, 2], &device).require_grad(), Tensor::<1>::ones([3], &device).require_grad());
        let values =
            sparse_encode(Tensor::ones([2, 2], &device), Tensor::zeros([2], &device), weight.clone(), bias.clone(), &pattern, None);
        let values = values * sparse_spread(bias.clone(), &pattern);
        let out = sparse_decode(values, weight.clone(), &pattern).sum();
        assert_eq!(out.clone().into_scalar::<f32>(), 0.0);
        let gradients = out.backward();
        assert_eq!(weight.grad(&gradients).map(|g| g.sum().into_scalar::<f32>()), Some(0.0));
        assert_eq!(bias.grad(&gradients).map(|g| g.sum().into_scalar::<f32>()), Some(0.0));
    }
}
