//! The loops of the Jacobian's blocks on slices: rows of a token's latents are gathered, and small products follow.

use rayon::prelude::*;

use super::{PANEL, block_starts, tile};
use crate::Pattern;
use crate::lanes::wide;

/// What the blocks are made of; shapes as in [`super::jacobian_blocks`].
pub(super) struct Operands<'a> {
    pub into: &'a [f32],
    pub out: &'a [f32],
    pub slopes: &'a [f32],
    /// h.
    pub units: usize,
    pub x: &'a Pattern,
    pub y: &'a Pattern,
}

/// Some units of a hidden layer.
#[derive(Clone, Copy)]
struct Panel {
    first: usize,
    count: usize,
}

/// Tokens that one task of the forward pass handles.
const TOKENS: usize = 16;

/// Rows of one token, gathered.
#[derive(Default)]
struct Scratch {
    /// S `[k_x, units of the panel]`.
    pushed: Vec<f32>,
    /// B of the token's latents `[k_y, units of the panel]`.
    pulled: Vec<f32>,
    /// ∂S and ∂B, alike.
    d_pushed: Vec<f32>,
    d_pulled: Vec<f32>,
}

fn panels(units: usize) -> Vec<Panel> {
    (0..units).step_by(PANEL).map(|first| Panel { first, count: PANEL.min(units - first) }).collect()
}

wide! {
    /// `out = a ⊙ s`.
    fn scaled(a: &[f32], s: &[f32], out: &mut [f32]) {
        out.iter_mut().zip(a).zip(s).for_each(|((out, &a), &s)| *out = a * s)
    }
}

wide! {
    /// `out += a ⊙ s`.
    fn add_scaled(a: &[f32], s: &[f32], out: &mut [f32]) {
        out.iter_mut().zip(a).zip(s).for_each(|((out, &a), &s)| *out += a * s)
    }
}

wide! {
    /// `d_a += d ⊙ s`, `d_s += d ⊙ a`.
    fn add_both(d: &[f32], a: &[f32], s: &[f32], d_a: &mut [f32], d_s: &mut [f32]) {
        for i in 0..d.len() {
            d_a[i] += d[i] * s[i];
            d_s[i] += d[i] * a[i];
        }
    }
}

wide! {
    /// `out += a`.
    fn add(a: &[f32], out: &mut [f32]) {
        out.iter_mut().zip(a).for_each(|(out, &a)| *out += a)
    }
}

impl Operands<'_> {
    fn branches(&self) -> usize {
        self.slopes.len() / (self.x.rows().max(1) * self.units)
    }

    /// `S` and the rows of `B` of token t for the panel's units.
    fn gather(&self, token: usize, panel: Panel, scratch: &mut Scratch) {
        let (h, branches, Panel { first, count }) = (self.units, self.branches(), panel);
        let (latents_x, latents_y) = (self.x.row(token), self.y.row(token));
        scratch.pushed.resize(latents_x.len() * count, 0.0);
        for (&latent, out) in latents_x.iter().zip(scratch.pushed.chunks_exact_mut(count)) {
            for branch in 0..branches {
                let a = &self.into[(latent as usize * branches + branch) * h + first..][..count];
                let s = &self.slopes[(token * branches + branch) * h + first..][..count];
                if branch == 0 { scaled(a, s, out) } else { add_scaled(a, s, out) }
            }
        }
        scratch.pulled.resize(latents_y.len() * count, 0.0);
        for (&latent, out) in latents_y.iter().zip(scratch.pulled.chunks_exact_mut(count)) {
            out.copy_from_slice(&self.out[latent as usize * h + first..][..count]);
        }
    }
}

/// See [`super::jacobian_blocks`].
pub(super) fn forward(operands: &Operands<'_>) -> Vec<f32> {
    let (x, y) = (operands.x, operands.y);
    let starts = block_starts(x, y);
    let mut blocks = vec![0.0_f32; *starts.last().unwrap_or(&0)];
    for panel in panels(operands.units) {
        let mut parts = Vec::with_capacity(x.rows().div_ceil(TOKENS));
        let mut rest = &mut blocks[..];
        for first in (0..x.rows()).step_by(TOKENS) {
            let last = (first + TOKENS).min(x.rows());
            let (part, after) = std::mem::take(&mut rest).split_at_mut(starts[last] - starts[first]);
            parts.push((first, part));
            rest = after;
        }
        parts.into_par_iter().for_each_init(Scratch::default, |scratch, (first, part)| {
            for token in first..(first + TOKENS).min(x.rows()) {
                let entries = x.range(token).len() * y.range(token).len();
                operands.gather(token, panel, scratch);
                let block = &mut part[starts[token] - starts[first]..][..entries];
                tile::add_dots(&scratch.pulled, &scratch.pushed, panel.count, block);
            }
        });
    }
    blocks
}

/// Zeros that lie in memory already: of memory that is only promised, every page would be fetched twice, read and then written.
#[allow(unsafe_code)]
fn zeros(count: usize) -> Vec<f32> {
    let mut values: Vec<f32> = Vec::with_capacity(count);
    values.spare_capacity_mut()[..count].par_chunks_mut(1 << 16).for_each(|part| {
        part.fill(std::mem::MaybeUninit::new(0.0));
    });
    // SAFETY: the chunks cover all `count` elements, and each was written.
    unsafe { values.set_len(count) };
    values
}

/// A pointer to numbers of which each task writes its own columns.
#[derive(Clone, Copy)]
struct Shared(*mut f32);

// SAFETY: tasks write disjoint elements; see `backward`.
#[allow(unsafe_code)]
unsafe impl Send for Shared {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}

impl Shared {
    /// `count` numbers from `at`.
    ///
    /// # Safety
    /// They lie within the allocation, and no other task reads or writes them meanwhile.
    #[allow(unsafe_code)]
    unsafe fn part<'a>(self, at: usize, count: usize) -> &'a mut [f32] {
        // SAFETY: by this function's own condition.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(at), count) }
    }
}

/// Gradients in `into`, `out` and `slopes`, from those of the blocks.
pub(super) fn backward(operands: &Operands<'_>, grad: &[f32]) -> [Vec<f32>; 3] {
    let (x, y, h, branches) = (operands.x, operands.y, operands.units, operands.branches());
    let starts = block_starts(x, y);
    let mut gradients = [operands.into.len(), operands.out.len(), operands.slopes.len()].map(zeros);
    let [into, out, slopes] = gradients.each_mut().map(|gradient| Shared(gradient.as_mut_ptr()));
    panels(h).into_par_iter().for_each_init(Scratch::default, |scratch, panel| {
        let Panel { first, count } = panel;
        for token in 0..x.rows() {
            let (k_x, k_y) = (x.range(token).len(), y.range(token).len());
            if k_x * k_y == 0 {
                continue;
            }
            operands.gather(token, panel, scratch);
            let block = &grad[starts[token]..starts[token + 1]];
            scratch.d_pushed.resize(k_x * count, 0.0);
            scratch.d_pulled.resize(k_y * count, 0.0);
            tile::combine(block, [1, k_x], &scratch.pulled, count, &mut scratch.d_pushed);
            tile::combine(block, [k_x, 1], &scratch.pushed, count, &mut scratch.d_pulled);
            for (&latent, d) in y.row(token).iter().zip(scratch.d_pulled.chunks_exact(count)) {
                // SAFETY: of each row this task alone touches the panel's columns, and rows are `h` apart in a matrix of `[n_y, h]`.
                #[allow(unsafe_code)]
                add(d, unsafe { out.part(latent as usize * h + first, count) });
            }
            for (&latent, d) in x.row(token).iter().zip(scratch.d_pushed.chunks_exact(count)) {
                for branch in 0..branches {
                    let (at_a, at_s) = ((latent as usize * branches + branch) * h + first, (token * branches + branch) * h + first);
                    let (a, s) = (&operands.into[at_a..][..count], &operands.slopes[at_s..][..count]);
                    // SAFETY: as above, of the matrices `[n_x, branches, h]` and `[N, branches, h]`.
                    #[allow(unsafe_code)]
                    let (d_a, d_s) = unsafe { (into.part(at_a, count), slopes.part(at_s, count)) };
                    add_both(d, a, s, d_a, d_s);
                }
            }
        }
    });
    gradients
}
