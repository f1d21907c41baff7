//! The gated delta rule: linear attention whose state forgets and corrects itself.
//!
//! A head keeps a state `S [dk, dv]`, 0 before the first token. At token t, with
//! q, k scaled to unit length (and q by `1/√dk` besides):
//!
//! `S ← e^{g_t} S`, `S ← S + k_t (β_t (v_t − Sᵀ k_t))ᵀ`, `y_t = Sᵀ q_t`.
//!
//! # Source
//! Yang, Kautz & Hatamizadeh 2024, *Gated delta networks*, arXiv 2412.06464, equation 10, as a recurrence.

use burn::backend::Dispatch;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{ForwardOps, is_plain_cpu};
use crate::lanes;

/// Sizes of one gated delta rule.
#[derive(Clone, Debug)]
pub struct GatedDelta {
    /// B.
    pub batch: usize,
    /// T.
    pub length: usize,
    /// Heads of queries and keys, which divide the value heads.
    pub key_heads: usize,
    /// Heads of values.
    pub value_heads: usize,
    /// dk.
    pub key_width: usize,
    /// dv.
    pub value_width: usize,
}

/// ε under the root of the length of queries and keys.
const EPSILON: f32 = 1e-6;

/// The outputs `[B, heads, T, dv]` of `qkv [B·T, 2·key_heads·dk + value_heads·dv]` with `log_decay` g and `beta` β `[B·T, value_heads]`.
pub fn gated_delta(qkv: Tensor<2>, log_decay: Tensor<2>, beta: Tensor<2>, spec: GatedDelta) -> Tensor<4> {
    if is_plain_cpu(&qkv) {
        let output = Dispatch::fused_gated_delta(qkv.into_dispatch(), log_decay.into_dispatch(), beta.into_dispatch(), spec);
        return Tensor::from_dispatch(output);
    }
    plain(qkv, log_decay, beta, &spec)
}

fn plain(qkv: Tensor<2>, log_decay: Tensor<2>, beta: Tensor<2>, spec: &GatedDelta) -> Tensor<4> {
    let GatedDelta { batch, length, key_heads, value_heads, key_width, value_width } = *spec;
    let group = value_heads / key_heads;
    let keys = key_heads * key_width;
    let unit = |from: usize| {
        let x = qkv.clone().narrow(1, from, keys).reshape([batch, length, key_heads, key_width]);
        let inverse = ((x.clone() * x.clone()).sum_dim(3) + EPSILON).sqrt().recip();
        let x = (x * inverse).unsqueeze_dim::<5>(3).repeat_dim(3, group);
        x.reshape([batch, length, value_heads, key_width]).swap_dims(1, 2)
    };
    let (q, k) = (unit(0) / (key_width as f64).sqrt(), unit(keys));
    let v = qkv.clone().narrow(1, 2 * keys, value_heads * value_width).reshape([batch, length, value_heads, value_width]).swap_dims(1, 2);
    let gate = |x: Tensor<2>| x.reshape([batch, length, value_heads, 1]).swap_dims(1, 2);
    let (decay, beta) = (gate(log_decay).exp(), gate(beta));
    let mut state: Tensor<4> = Tensor::zeros([batch, value_heads, key_width, value_width], &qkv.device());
    let mut outputs = Vec::with_capacity(length);
    for t in 0..length {
        let at = |x: &Tensor<4>| x.clone().narrow(2, t, 1);
        state = state * at(&decay);
        let k_column = at(&k).swap_dims(2, 3);
        let remembered = (state.clone() * k_column.clone()).sum_dim(2);
        state = state + k_column * ((at(&v) - remembered) * at(&beta));
        outputs.push((state.clone() * at(&q).swap_dims(2, 3)).sum_dim(2));
    }
    Tensor::cat(outputs, 2)
}

pub(super) fn fused(qkv: &[f32], log_decay: &[f32], beta: &[f32], spec: &GatedDelta) -> Vec<f32> {
    let GatedDelta { batch, length, key_heads, value_heads, key_width, value_width } = *spec;
    let keys = key_heads * key_width;
    let row_width = 2 * keys + value_heads * value_width;
    let mut output = vec![0.0; batch * value_heads * length * value_width];
    output.par_chunks_mut(length * value_width).enumerate().for_each(|(index, rows)| {
        let (sample, head) = (index / value_heads, index % value_heads);
        let key_head = head * key_heads / value_heads;
        let mut state = vec![0.0; key_width * value_width];
        let mut spare = vec![0.0; value_width];
        let unit = |x: &[f32], factor: f32| {
            let inverse = factor / (x.iter().map(|x| x * x).sum::<f32>() + EPSILON).sqrt();
            x.iter().map(|x| x * inverse).collect::<Vec<f32>>()
        };
        for (t, y) in rows.chunks_exact_mut(value_width).enumerate() {
            let token = sample * length + t;
            let row = &qkv[token * row_width..(token + 1) * row_width];
            let q = unit(&row[key_head * key_width..][..key_width], 1.0 / (key_width as f32).sqrt());
            let k = unit(&row[keys + key_head * key_width..][..key_width], 1.0);
            let v = &row[2 * keys + head * value_width..][..value_width];
            let gates = [log_decay[token * value_heads + head].exp(), beta[token * value_heads + head]];
            lanes::delta_step(&mut state, &q, &k, v, gates, &mut spare, y);
        }
    });
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    #[test]
    fn fused_equals_plain() {
        let device = Device::flex();
        let spec = GatedDelta { batch: 2, length: 9, key_heads: 2, value_heads: 4, key_width: 5, value_width: 3 };
        let qkv: Tensor<2> = Tensor::random([18, 32], Distribution::Normal(0.0, 1.0), &device);
        let log_decay: Tensor<2> = Tensor::random([18, 4], Distribution::Uniform(-1.0, 0.0), &device);
        let beta: Tensor<2> = Tensor::random([18, 4], Distribution::Uniform(0.0, 1.0), &device);
        let expected = plain(qkv.clone(), log_decay.clone(), beta.clone(), &spec).into_data();
        gated_delta(qkv, log_decay, beta, spec).into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
    }

    /// One token: the state is `β k vᵀ`, so with q = k of unit length `y = β v / √dk`.
    #[test]
    fn one_token_by_hand() {
        let device = Device::flex();
        let spec = GatedDelta { batch: 1, length: 1, key_heads: 1, value_heads: 1, key_width: 1, value_width: 2 };
        let one = |x: f32| Tensor::<2>::from_floats([[x]], &device);
        let y = gated_delta(Tensor::from_floats([[7.0, 7.0, 2.0, -4.0]], &device), one(-0.5), one(0.5), spec);
        y.into_data().assert_approx_eq::<f32>(&burn::tensor::TensorData::from([[[[1.0_f32, -2.0]]]]), Tolerance::absolute(1e-5));
    }
}
