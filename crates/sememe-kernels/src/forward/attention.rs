//! Causal attention of grouped heads: norm of queries and keys, rotary positions, soft cap and sliding window in one operation.
//!
//! A row of `qkv [B·T, (H + 2K)·dh]` holds H queries, K keys and K values of
//! one token; query head h reads key head `⌊h K/H⌋`. With `q̂`, `k̂` the queries
//! and keys after their norm (if any) and their rotation by position:
//!
//! `y_t = Σ_s softmax_s(cap(α q̂_t·k̂_s)) v_s` over `t − window < s ≤ t`, `cap(x) = c tanh(x/c)`.
//!
//! The fused path never stores scores for more than a block of queries, and
//! skips blocks that the mask hides. Rows of one batch element that are
//! padding must come after its tokens: the causal mask then hides them.
//!
//! # Source
//! Vaswani et al. 2017, arXiv 1706.03762; grouped heads: Ainslie et al. 2023, arXiv 2305.13245; rotation: Su et al. 2021,
//! arXiv 2104.09864, in the half-split form; blocks: Dao et al. 2022, arXiv 2205.14135, without their online softmax.

#![allow(unsafe_code)]

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{Bool, Tensor, TensorData, activation};
use rayon::prelude::*;

use super::{ForwardOps, is_plain_cpu, rms_norm};
use crate::lanes;

/// Cosines and sines of the rotation, `[length, turned / 2]` each.
#[derive(Debug, PartialEq)]
pub struct RopeTable {
    /// Pairs that are turned: components `i` and `i + pairs` of a head.
    pub pairs: usize,
    /// `cos(t ω_i)`.
    pub cos: Vec<f32>,
    /// `sin(t ω_i)`.
    pub sin: Vec<f32>,
}

impl RopeTable {
    /// The table for positions `0..length` with angular frequencies ω a position.
    pub fn new(frequencies: &[f64], length: usize) -> Self {
        let angles = || (0..length).flat_map(|t| frequencies.iter().map(move |&omega| t as f64 * omega));
        Self {
            pairs: frequencies.len(),
            cos: angles().map(|angle| angle.cos() as f32).collect(),
            sin: angles().map(|angle| angle.sin() as f32).collect(),
        }
    }

    fn row(&self, position: usize) -> (&[f32], &[f32]) {
        let range = position * self.pairs..(position + 1) * self.pairs;
        (&self.cos[range.clone()], &self.sin[range])
    }
}

/// What one attention computes.
#[derive(Clone, Debug)]
pub struct Attention {
    /// B.
    pub batch: usize,
    /// T.
    pub length: usize,
    /// H.
    pub heads: usize,
    /// K, which divides H.
    pub kv_heads: usize,
    /// dh.
    pub head_width: usize,
    /// α.
    pub scale: f64,
    /// c; none caps nothing.
    pub soft_cap: Option<f64>,
    /// Positions a query sees, itself included; none means all before it.
    pub window: Option<usize>,
    /// The rotation; none turns nothing.
    pub rope: Option<Arc<RopeTable>>,
    /// ε of the RMS norms of queries and keys, where they have any.
    pub norm_epsilon: f64,
}

impl Attention {
    fn row_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_width
    }
}

/// The attention that `spec` describes, `[B·T, H·dh]`; `gains`, if any, are those of the RMS norms of queries and keys, `[dh]` each.
///
/// # Panics
/// When `qkv` is not `[B·T, (H + 2K)·dh]`.
pub fn attention(qkv: Tensor<2>, gains: Option<[Tensor<1>; 2]>, spec: Attention) -> Tensor<2> {
    assert_eq!(qkv.dims(), [spec.batch * spec.length, spec.row_width()], "queries, keys and values");
    if is_plain_cpu(&qkv) {
        let gains = gains.map(|gains| gains.map(|gain| gain.into_data().iter::<f32>().collect::<Vec<f32>>()));
        return Tensor::from_dispatch(Dispatch::fused_attention(qkv.into_dispatch(), gains, spec));
    }
    plain(qkv, gains, &spec)
}

fn plain(qkv: Tensor<2>, gains: Option<[Tensor<1>; 2]>, spec: &Attention) -> Tensor<2> {
    let Attention { batch, length, heads, kv_heads, head_width, .. } = *spec;
    let device = qkv.device();
    let of = |from: usize, count: usize| {
        let part = qkv.clone().narrow(1, from * head_width, count * head_width);
        part.reshape([batch, length, count, head_width]).swap_dims(1, 2)
    };
    let (mut q, mut k, v) = (of(0, heads), of(heads, kv_heads), of(heads + kv_heads, kv_heads));
    if let Some([q_gain, k_gain]) = gains {
        let norm = |x: Tensor<4>, gain: Tensor<1>| {
            let dims = x.dims();
            rms_norm(x.reshape([dims[0] * dims[1] * dims[2], head_width]), gain, spec.norm_epsilon).reshape(dims)
        };
        (q, k) = (norm(q, q_gain), norm(k, k_gain));
    }
    if let Some(rope) = &spec.rope {
        let table = |values: &[f32]| {
            let values = values[..length * rope.pairs].to_vec();
            Tensor::<2>::from_data(TensorData::new(values, [length, rope.pairs]), &device).reshape([1, 1, length, rope.pairs])
        };
        let (cos, sin) = (table(&rope.cos), table(&rope.sin));
        let turn = |x: Tensor<4>| {
            let (a, b) = (x.clone().narrow(3, 0, rope.pairs), x.clone().narrow(3, rope.pairs, rope.pairs));
            let mut parts = vec![a.clone() * cos.clone() - b.clone() * sin.clone(), b * cos.clone() + a * sin.clone()];
            let rest = head_width - 2 * rope.pairs;
            if rest > 0 {
                parts.push(x.narrow(3, 2 * rope.pairs, rest));
            }
            Tensor::cat(parts, 3)
        };
        (q, k) = (turn(q), turn(k));
    }
    let group = heads / kv_heads;
    let repeat = |x: Tensor<4>| {
        if group == 1 { x } else { x.unsqueeze_dim::<5>(2).repeat_dim(2, group).reshape([batch, heads, length, head_width]) }
    };
    let mut scores = q.matmul(repeat(k).swap_dims(2, 3)) * spec.scale;
    if let Some(cap) = spec.soft_cap {
        scores = (scores / cap).tanh() * cap;
    }
    let hidden = |t: usize, s: usize| s > t || spec.window.is_some_and(|window| s + window <= t);
    let mask: Vec<bool> = (0..length * length).map(|at| hidden(at / length, at % length)).collect();
    let mask: Tensor<4, Bool> =
        Tensor::<2, Bool>::from_data(TensorData::new(mask, [length, length]), &device).reshape([1, 1, length, length]);
    let scores = scores.mask_fill(mask.expand([batch, heads, length, length]), f32::NEG_INFINITY);
    let output = activation::softmax(scores, 3).matmul(repeat(v));
    output.swap_dims(1, 2).reshape([batch * length, heads * head_width])
}

/// Queries a block.
const BLOCK: usize = 64;

pub(super) fn fused(qkv: &mut [f32], gains: Option<&[Vec<f32>; 2]>, spec: &Attention) -> Vec<f32> {
    let (row_width, width, length) = (spec.row_width(), spec.heads * spec.head_width, spec.length);
    if gains.is_some() || spec.rope.is_some() {
        qkv.par_chunks_mut(row_width).enumerate().with_min_len(8).for_each(|(token, row)| place(row, token % length, gains, spec));
    }
    let qkv = &*qkv;
    let mut output = vec![0.0; spec.batch * length * width];
    let blocks = output.par_chunks_mut(length * width).enumerate().flat_map(|(sample, rows)| {
        let qkv = &qkv[sample * length * row_width..(sample + 1) * length * row_width];
        rows.par_chunks_mut(BLOCK * width).enumerate().map(move |(block, rows)| (qkv, block * BLOCK, rows))
    });
    blocks.for_each_init(Vec::new, |scores, (qkv, first, rows)| attend(qkv, first, rows, scores, spec));
    output
}

/// Normalises and turns the queries and keys of one token.
fn place(row: &mut [f32], position: usize, gains: Option<&[Vec<f32>; 2]>, spec: &Attention) {
    let turned = (spec.heads + spec.kv_heads) * spec.head_width;
    for (index, head) in row[..turned].chunks_exact_mut(spec.head_width).enumerate() {
        if let Some([q_gain, k_gain]) = gains {
            lanes::rms_in_place(head, if index < spec.heads { q_gain } else { k_gain }, spec.norm_epsilon as f32);
        }
        if let Some(rope) = &spec.rope {
            let (cos, sin) = rope.row(position);
            let (a, b) = head[..2 * rope.pairs].split_at_mut(rope.pairs);
            lanes::rotate(a, b, cos, sin);
        }
    }
}

/// All heads of the queries `first..` of one sample; `rows` is their part of the output.
fn attend(qkv: &[f32], first: usize, rows: &mut [f32], scores: &mut Vec<f32>, spec: &Attention) {
    let (row_width, head_width, width) = (spec.row_width(), spec.head_width, spec.heads * spec.head_width);
    let queries = rows.len() / width;
    let start = spec.window.map_or(0, |window| (first + 1).saturating_sub(window));
    let keys = first + queries - start;
    scores.resize(queries * keys, 0.0);
    for head in 0..spec.heads {
        let kv = head * spec.kv_heads / spec.heads;
        let at = |token: usize, slot: usize| &qkv[token * row_width + slot * head_width..];
        let (q, k, v) = (at(first, head), at(start, spec.heads + kv), at(start, spec.heads + spec.kv_heads + kv));
        product(
            scores,
            keys,
            Matrix { data: q, strides: [row_width, 1] },
            Matrix { data: k, strides: [1, row_width] },
            [queries, head_width, keys],
            spec.scale as f32,
        );
        for (query, row) in scores.chunks_exact_mut(keys).enumerate() {
            let t = first + query;
            let low = spec.window.map_or(0, |window| (t + 1).saturating_sub(window)) - if spec.window.is_some() { start } else { 0 };
            let high = t + 1 - start;
            row[..low].fill(0.0);
            row[high..].fill(0.0);
            lanes::softmax(&mut row[low..high], spec.soft_cap.unwrap_or(0.0) as f32);
        }
        let probabilities = Matrix { data: scores, strides: [keys, 1] };
        product(
            &mut rows[head * head_width..],
            width,
            probabilities,
            Matrix { data: v, strides: [row_width, 1] },
            [queries, keys, head_width],
            1.0,
        );
    }
}

/// A matrix inside a slice, with the distances between rows and between columns.
struct Matrix<'a> {
    data: &'a [f32],
    strides: [usize; 2],
}

impl Matrix<'_> {
    /// Whether `rows × columns` elements lie inside the slice.
    fn holds(&self, rows: usize, columns: usize) -> bool {
        rows > 0 && columns > 0 && (rows - 1) * self.strides[0] + (columns - 1) * self.strides[1] < self.data.len()
    }
}

/// `out [m, n] = factor · a [m, k] b [k, n]`, rows of `out` at distance `stride`, on this thread.
fn product(out: &mut [f32], stride: usize, a: Matrix<'_>, b: Matrix<'_>, [m, k, n]: [usize; 3], factor: f32) {
    assert!(a.holds(m, k) && b.holds(k, n) && stride >= n && (m - 1) * stride + n <= out.len(), "a matrix leaves its slice");
    let stride_of = |matrix: &Matrix<'_>, dim: usize| matrix.strides[dim] as isize;
    // SAFETY: the assertion keeps every element that the three matrices address inside its slice; `out` is
    // borrowed exclusively, so it overlaps neither factor, and its rows do not overlap because stride ≥ n.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            stride as isize,
            false,
            a.data.as_ptr(),
            stride_of(&a, 1),
            stride_of(&a, 0),
            b.data.as_ptr(),
            stride_of(&b, 1),
            stride_of(&b, 0),
            0.0,
            factor,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    /// Every option alone and all together, over more than one block of queries.
    #[test]
    fn fused_equals_plain() {
        let device = Device::flex();
        let (batch, length, heads, kv_heads, head_width) = (2, 150, 4, 2, 8);
        let qkv: Tensor<2> = Tensor::random([batch * length, (heads + 2 * kv_heads) * head_width], Distribution::Normal(0.0, 1.5), &device);
        let bare = Attention {
            batch,
            length,
            heads,
            kv_heads,
            head_width,
            scale: 0.4,
            soft_cap: None,
            window: None,
            rope: None,
            norm_epsilon: 1e-6,
        };
        let rope = Some(Arc::new(RopeTable::new(&[1.0, 0.3, 0.01], length)));
        let gains: Vec<f32> = (0..head_width).map(|i| 0.5 + 0.1 * i as f32).collect();
        let gain: Tensor<1> = Tensor::from_data(TensorData::new(gains, [head_width]), &device);
        let norms = Some([gain.clone(), gain * 1.3]);
        let all = Attention { soft_cap: Some(3.0), window: Some(20), rope: rope.clone(), ..bare.clone() };
        let variants = [
            (bare.clone(), None),
            (Attention { soft_cap: Some(2.0), ..bare.clone() }, None),
            (Attention { window: Some(7), ..bare.clone() }, None),
            (Attention { window: Some(70), ..bare.clone() }, None),
            (Attention { rope, ..bare.clone() }, None),
            (bare, norms.clone()),
            (all, norms),
        ];
        for (spec, gains) in variants {
            let expected = plain(qkv.clone(), gains.clone(), &spec).into_data();
            attention(qkv.clone(), gains, spec).into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(2e-5));
        }
    }

    /// The first token sees itself alone, so it gets its own value.
    #[test]
    fn first_token_attends_to_itself() {
        let device = Device::flex();
        let qkv = Tensor::from_floats([[1.0, 2.0, 3.0], [0.0, 1.0, 5.0]], &device);
        let spec = Attention {
            batch: 1,
            length: 2,
            heads: 1,
            kv_heads: 1,
            head_width: 1,
            scale: 1.0,
            soft_cap: None,
            window: None,
            rope: None,
            norm_epsilon: 1e-6,
        };
        // The second has q = 0: both scores are 0, hence the mean of the values.
        attention(qkv, None, spec).into_data().assert_approx_eq::<f32>(&TensorData::from([[3.0_f32], [4.0]]), Tolerance::absolute(1e-6));
    }
}
