//! The Jacobian of an attention layer between latents at all tokens of a context, in closed form: through the values alone, or in full.
//!
//! At token t head h puts out `o_t = Σ_s P_ts v_s` with `P = softmax(σ q kᵀ)`
//! (causal, or of a window), `q_t = R_t(n_t W_Q)`, `k_s = R_s(n_s W_K)` (R turns
//! by position), `v_s = n_s W_V`; the layer's output is `Σ_h o_t^h W_O^h`.
//!
//! Latent a at token s moves n_s by `δ_a` (its decoder row, through the norm if
//! there is one); latent b at token t reads the output by `ρ_b = E_b W_Oᵀ`. With
//! the pattern held fixed
//!
//! `J[(t,b),(s,a)] = Σ_h P_ts ρ_b · δ_a W_V`,
//!
//! and in full, since `∂P_ts = P_ts (∂S_ts − Σ_r P_tr ∂S_tr)` for scores S,
//!
//! ```text
//! + Σ_h P_ts (ρ_b·(v_s − o_t)) σ q_t·R_s(δ_a W_K)                        as a key
//! + Σ_h Σ_r P_tr (ρ_b·(v_r − o_t)) σ R_t(δ_a W_Q)·k_r     where s = t    as a query
//! ```
//!
//! Not covered, and refused by whoever makes an [`Attention`] of a model's layer: norms of queries and keys, soft-capped
//! scores, gated outputs.
//!
//! # Source
//! Vaswani et al. 2017, arXiv 1706.03762, §3.2; the fixed pattern: Elhage et al. 2021, *A Mathematical Framework for Transformer Circuits*.

use burn::tensor::{Int, Tensor, TensorData, activation};
use sememe_kernels::Pattern;

use super::layer::{FrozenNorm, lifted};

/// An attention layer as plain matrices; H query heads of width e, G heads of keys and values.
#[derive(Clone, Debug)]
pub struct Attention {
    /// The norm before it.
    pub norm: Option<FrozenNorm>,
    /// `[d, H·e]`.
    pub query: Tensor<2>,
    /// `[d, G·e]`.
    pub key: Tensor<2>,
    /// `[d, G·e]`.
    pub value: Tensor<2>,
    /// `[H·e]`, `[G·e]`, `[G·e]`.
    pub biases: Option<[Tensor<1>; 3]>,
    /// `[H·e, d]`.
    pub out: Tensor<2>,
    /// `[d]`.
    pub out_bias: Option<Tensor<1>>,
    /// H.
    pub heads: usize,
    /// G.
    pub kv_heads: usize,
    /// σ.
    pub score_scale: f64,
    /// Tokens back that are seen, where not all are.
    pub window: Option<usize>,
    /// Angle a position of each pair of components `i`, `i + pairs` that R turns; empty for none.
    pub frequencies: Vec<f64>,
}

/// Rows with which to compute one head.
struct Head {
    q: Tensor<2>,
    k: Tensor<2>,
    v: Tensor<2>,
    /// P `[T, T]`.
    pattern: Tensor<2>,
}

fn index(of: &[usize], like: &Tensor<2>) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(of.iter().map(|&at| at as i32).collect::<Vec<_>>(), [of.len()]), &like.device())
}

impl Attention {
    fn head_width(&self) -> usize {
        self.query.dims()[1] / self.heads
    }

    /// n `[T, d]` of what enters.
    fn normed(&self, x: &Tensor<2>) -> Tensor<2> {
        match &self.norm {
            Some(norm) => norm.scaled(norm.normed(x).unit),
            None => x.clone(),
        }
    }

    /// `R` of rows `[M, e]` at positions `[M]`.
    fn turned(&self, rows: Tensor<2>, positions: &[usize]) -> Tensor<2> {
        let pairs = self.frequencies.len();
        if pairs == 0 {
            return rows;
        }
        let [count, width] = rows.dims();
        let table = |f: fn(f64) -> f64| {
            let values: Vec<f32> =
                positions.iter().flat_map(|&t| self.frequencies.iter().map(move |omega| f(t as f64 * omega) as f32)).collect();
            Tensor::<2>::from_data(TensorData::new(values, [count, pairs]), &rows.device())
        };
        let (cos, sin) = (table(f64::cos), table(f64::sin));
        let (a, b) = (rows.clone().narrow(1, 0, pairs), rows.clone().narrow(1, pairs, pairs));
        let mut parts = vec![a.clone() * cos.clone() - b.clone() * sin.clone(), b * cos + a * sin];
        if width > 2 * pairs {
            parts.push(rows.narrow(1, 2 * pairs, width - 2 * pairs));
        }
        Tensor::cat(parts, 1)
    }

    fn part(&self, rows: Tensor<2>, matrix: &Tensor<2>, bias: Option<&Tensor<1>>, head: usize) -> Tensor<2> {
        let e = self.head_width();
        let product = rows.clone().matmul(lifted(matrix, &rows).narrow(1, head * e, e));
        match bias {
            Some(bias) => product + lifted(bias, &rows).narrow(0, head * e, e).unsqueeze_dim::<2>(0),
            None => product,
        }
    }

    fn head(&self, n: &Tensor<2>, head: usize) -> Head {
        let tokens = n.dims()[0];
        let group = head * self.kv_heads / self.heads;
        let bias = |which: usize| self.biases.as_ref().map(|biases| &biases[which]);
        let positions: Vec<usize> = (0..tokens).collect();
        let q = self.turned(self.part(n.clone(), &self.query, bias(0), head), &positions);
        let k = self.turned(self.part(n.clone(), &self.key, bias(1), group), &positions);
        let v = self.part(n.clone(), &self.value, bias(2), group);
        let sees = |t: usize, s: usize| s <= t && self.window.is_none_or(|window| t - s < window);
        let mask: Vec<f32> =
            (0..tokens).flat_map(|t| (0..tokens).map(move |s| (t, s))).map(|(t, s)| if sees(t, s) { 0.0 } else { -1e9 }).collect();
        let mask = Tensor::<2>::from_data(TensorData::new(mask, [tokens, tokens]), &n.device());
        let scores = q.clone().matmul(k.clone().transpose()) * self.score_scale + mask;
        Head { q, k, v, pattern: activation::softmax(scores, 1) }
    }

    /// The layer's output at every token of a context: `[T, d] → [T, d]`.
    pub fn apply(&self, x: &Tensor<2>) -> Tensor<2> {
        let n = self.normed(x);
        let heads = (0..self.heads).map(|head| {
            let Head { v, pattern, .. } = self.head(&n, head);
            pattern.matmul(v)
        });
        let all = Tensor::cat(heads.collect(), 1);
        let output = all.clone().matmul(lifted(&self.out, &all));
        match &self.out_bias {
            Some(bias) => output + lifted(bias, &all).unsqueeze_dim::<2>(0),
            None => output,
        }
    }
}

/// `J[(t,b),(s,a)]` over all active latents of a context: `[entries of y, entries of x]`, 0 where s is later than t.
///
/// `entered [T, d]` is what the layer reads (x̂), `decoder [n_x, d]`, `encoder [n_y, d]`; differentiable in all three.
/// With `holds_pattern` the attention pattern is a constant.
///
/// # Panics
/// When shapes do not fit.
pub fn attention_jacobian(
    layer: &Attention,
    entered: &Tensor<2>,
    (decoder, x): (&Tensor<2>, &Pattern),
    (encoder, y): (&Tensor<2>, &Pattern),
    holds_pattern: bool,
) -> Tensor<2> {
    assert_eq!([x.rows(), y.rows()], [entered.dims()[0]; 2], "patterns of the context's tokens");
    let latents = |pattern: &Pattern| pattern.latents().iter().map(|&latent| latent as usize).collect::<Vec<_>>();
    let tokens = |pattern: &Pattern| pattern.row_of_entries().into_iter().map(|row| row as usize).collect::<Vec<_>>();
    let (at_x, at_y) = (tokens(x), tokens(y));
    let (s_of, t_of) = (index(&at_x, entered), index(&at_y, entered));
    let rows = decoder.clone().select(0, index(&latents(x), decoder));
    let delta = match &layer.norm {
        Some(norm) => {
            // ∂n = γ ⊙ (D̄ − v̂ (v̂·D)/d) / r
            let normed = norm.normed(entered);
            let (unit, inverse) = (normed.unit.select(0, s_of.clone()), normed.inverse.select(0, s_of.clone()));
            let width = rows.dims()[1] as f64;
            let along = (rows.clone() * unit.clone()).sum_dim(1) / width;
            (norm.directions(rows) - unit.clone() * lifted(&norm.factor, &unit).unsqueeze_dim::<2>(0) * along) * inverse
        }
        None => rows,
    };
    let readers = encoder.clone().select(0, index(&latents(y), encoder));
    let readers = readers.clone().matmul(lifted(&layer.out, &readers).transpose());
    let n = layer.normed(entered);
    let same = {
        let values: Vec<f32> = at_y.iter().flat_map(|t| at_x.iter().map(move |s| f32::from(u8::from(t == s)))).collect();
        Tensor::<2>::from_data(TensorData::new(values, [at_y.len(), at_x.len()]), &entered.device())
    };
    let e = layer.head_width();
    let of_head = |head: usize| {
        let group = head * layer.kv_heads / layer.heads;
        let Head { q, k, v, pattern } = layer.head(&n, head);
        let rho = readers.clone().narrow(1, head * e, e);
        let p_rows = pattern.clone().select(0, t_of.clone());
        let p = p_rows.clone().select(1, s_of.clone());
        let by_value = rho.clone().matmul(layer.part(delta.clone(), &layer.value, None, group).transpose());
        if holds_pattern {
            return p * by_value;
        }
        let o = pattern.matmul(v.clone()).select(0, t_of.clone());
        // ρ_b · (v_r − o_t): [entries of y, T]
        let pull = rho.clone().matmul(v.transpose()) - (rho * o).sum_dim(1);
        let as_key = q.select(0, t_of.clone()).matmul(layer.turned(layer.part(delta.clone(), &layer.key, None, group), &at_x).transpose());
        let as_query = k.matmul(layer.turned(layer.part(delta.clone(), &layer.query, None, head), &at_x).transpose());
        let through_key = pull.clone().select(1, s_of.clone()) * as_key * layer.score_scale;
        p * (by_value + through_key) + (p_rows * pull).matmul(as_query) * same.clone() * layer.score_scale
    };
    (1..layer.heads).fold(of_head(0), |sum, head| sum + of_head(head))
}
