//! Element-wise loops over slices, compiled twice and chosen at run time: for any processor, and for those with AVX2 and FMA.
//!
//! The bodies are plain loops that the compiler vectorises to whatever width
//! the instruction set has; nothing needs to be said at build time.

use crate::Activation;
use crate::activation::{exp, for_constant, tanh};

/// Declares `pub fn name(args)` with its body compiled for both instruction sets.
macro_rules! wide {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $Type:ty),*) $body:block) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        pub(crate) fn $name($($arg: $Type),*) {
            #[inline(always)]
            fn portable($($arg: $Type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn with_avx2($($arg: $Type),*) {
                    portable($($arg),*);
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the only condition of calling it is that the processor has both features, just checked.
                    return unsafe { with_avx2($($arg),*) };
                }
            }
            portable($($arg),*)
        }
    };
}

pub(crate) use wide;

wide! {
    /// `y = φ(u)`.
    fn value(u: &[f32], y: &mut [f32], phi: Activation) {
        for_constant!(phi, PHI => y.iter_mut().zip(u).for_each(|(y, &u)| *y = PHI.value(u)))
    }
}

wide! {
    /// `y = φ′(u)`.
    fn slope(u: &[f32], y: &mut [f32], phi: Activation) {
        for_constant!(phi, PHI => y.iter_mut().zip(u).for_each(|(y, &u)| *y = PHI.slope(u)))
    }
}

wide! {
    /// `y = t · φ′(u)`.
    fn times_slope(t: &[f32], u: &[f32], y: &mut [f32], phi: Activation) {
        for_constant!(phi, PHI => y.iter_mut().zip(t).zip(u).for_each(|((y, &t), &u)| *y = t * PHI.slope(u)))
    }
}

wide! {
    /// `y ← y · φ″(u)`.
    fn by_curvature(u: &[f32], y: &mut [f32], phi: Activation) {
        for_constant!(phi, PHI => y.iter_mut().zip(u).for_each(|(y, &u)| *y *= PHI.curvature(u)))
    }
}

wide! {
    /// `y = a · b`.
    fn product(a: &[f32], b: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(a).zip(b).for_each(|((y, &a), &b)| *y = a * b)
    }
}

wide! {
    /// `y ← y + a · b`.
    fn add_product(a: &[f32], b: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(a).zip(b).for_each(|((y, &a), &b)| *y += a * b)
    }
}

/// Sum of `f(x)` over the slice in 16 independent partial sums, so that it vectorises.
#[inline(always)]
fn sum_of(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut partial = [0.0_f32; 16];
    let blocks = x.chunks_exact(16);
    let rest: f32 = blocks.remainder().iter().map(|&x| f(x)).sum();
    for block in blocks {
        for (sum, &x) in partial.iter_mut().zip(block) {
            *sum += f(x);
        }
    }
    partial.iter().sum::<f32>() + rest
}

/// Largest element, −∞ of none.
#[inline(always)]
fn largest(x: &[f32]) -> f32 {
    let mut partial = [f32::NEG_INFINITY; 16];
    let blocks = x.chunks_exact(16);
    let rest = blocks.remainder().iter().fold(f32::NEG_INFINITY, |m, &x| if x > m { x } else { m });
    for block in blocks {
        for (most, &x) in partial.iter_mut().zip(block) {
            *most = if x > *most { x } else { *most };
        }
    }
    partial.iter().fold(rest, |m, &x| if x > m { x } else { m })
}

wide! {
    /// Row by row `y = γ ⊙ x / √(mean(x²) + ε)`.
    fn rms_rows(x: &[f32], gain: &[f32], y: &mut [f32], epsilon: f32) {
        let width = gain.len();
        for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)) {
            let inverse = 1.0 / (sum_of(x, |x| x * x) / width as f32 + epsilon).sqrt();
            y.iter_mut().zip(x).zip(gain).for_each(|((y, &x), &gain)| *y = x * inverse * gain);
        }
    }
}

wide! {
    /// Row by row `y = γ ⊙ (x − μ)/√(var + ε) + β`.
    fn layer_norm_rows(x: &[f32], gain: &[f32], bias: &[f32], y: &mut [f32], epsilon: f32) {
        let width = gain.len();
        for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)) {
            let mean = sum_of(x, |x| x) / width as f32;
            let variance = sum_of(x, |x| (x - mean) * (x - mean)) / width as f32;
            let inverse = 1.0 / (variance + epsilon).sqrt();
            y.iter_mut().zip(x).zip(gain.iter().zip(bias)).for_each(|((y, &x), (&gain, &bias))| *y = (x - mean) * inverse * gain + bias);
        }
    }
}

wide! {
    /// `y = φ(u) · v`.
    fn gated(u: &[f32], v: &[f32], y: &mut [f32], phi: Activation) {
        for_constant!(phi, PHI => y.iter_mut().zip(u).zip(v).for_each(|((y, &u), &v)| *y = PHI.value(u) * v))
    }
}

wide! {
    /// Turns the scores `x` into probabilities; a soft cap above 0 first maps them to `cap · tanh(x / cap)`.
    fn softmax(x: &mut [f32], cap: f32) {
        if cap > 0.0 {
            x.iter_mut().for_each(|x| *x = cap * tanh(*x / cap));
        }
        let most = largest(x);
        x.iter_mut().for_each(|x| *x = exp(*x - most));
        let inverse = 1.0 / sum_of(x, |x| x);
        x.iter_mut().for_each(|x| *x *= inverse);
    }
}

wide! {
    /// `(max x, Σ exp(x − max x))`.
    fn log_sum_exp(x: &[f32], statistics: &mut [f32; 2]) {
        let most = largest(x);
        *statistics = [most, sum_of(x, |x| exp(x - most))];
    }
}

wide! {
    /// Turns pairs `(a_i, b_i)` by the angles of which cosines and sines are given: `(a c − b s, b c + a s)`.
    fn rotate(a: &mut [f32], b: &mut [f32], cos: &[f32], sin: &[f32]) {
        for ((a, b), (&c, &s)) in a.iter_mut().zip(b.iter_mut()).zip(cos.iter().zip(sin)) {
            (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
        }
    }
}

wide! {
    /// One step of the gated delta rule on a state `[dk, dv]`:
    /// `S ← e^g S`, `S ← S + k (β (v − Sᵀk))ᵀ`, `y = Sᵀq`; `spare [dv]` is overwritten.
    fn delta_step(state: &mut [f32], q: &[f32], k: &[f32], v: &[f32], gates: [f32; 2], spare: &mut [f32], y: &mut [f32]) {
        let width = v.len();
        let [decay, beta] = gates;
        spare.fill(0.0);
        for (row, &k) in state.chunks_exact_mut(width).zip(k) {
            for (s, sum) in row.iter_mut().zip(spare.iter_mut()) {
                *s *= decay;
                *sum += *s * k;
            }
        }
        spare.iter_mut().zip(v).for_each(|(sum, &v)| *sum = beta * (v - *sum));
        y.fill(0.0);
        for ((row, &k), &q) in state.chunks_exact_mut(width).zip(k).zip(q) {
            for ((s, &d), y) in row.iter_mut().zip(spare.iter()).zip(y.iter_mut()) {
                *s += k * d;
                *y += *s * q;
            }
        }
    }
}

wide! {
    /// `x ← γ ⊙ x / √(mean(x²) + ε)`.
    fn rms_in_place(x: &mut [f32], gain: &[f32], epsilon: f32) {
        let inverse = 1.0 / (sum_of(x, |x| x * x) / x.len() as f32 + epsilon).sqrt();
        x.iter_mut().zip(gain).for_each(|(x, &gain)| *x *= inverse * gain);
    }
}
