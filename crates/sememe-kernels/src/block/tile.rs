//! Small products on one thread, of matrices that fit a first-level cache: too small for a general routine to repay its packing.

/// Declares `pub fn name(args)` whose body, given whether products and sums may be fused, is compiled for any processor and for
/// those with AVX2 and FMA.
macro_rules! fused {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $Type:ty),*) by $body:ident) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        pub(super) fn $name($($arg: $Type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn with_fma($($arg: $Type),*) {
                    $body::<true>($($arg),*);
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the only condition of calling it is that the processor has both features, just checked.
                    return unsafe { with_fma($($arg),*) };
                }
            }
            // On other processors a fused multiply-add is an instruction of the base set, or a slow call.
            $body::<{ cfg!(target_arch = "aarch64") }>($($arg),*);
        }
    };
}

/// `a b + c`.
#[inline(always)]
fn add_product<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Numbers that are handled at once along a row.
const LANES: usize = 8;
/// Numbers of a row of `out` that [`combine`] keeps in registers.
const WIDE: usize = 16;

fused! {
    /// `out[r, c] += left[r] · right[c]`: `left [rows, width]`, `right [columns, width]`, `out [rows, columns]`.
    fn add_dots(left: &[f32], right: &[f32], width: usize, out: &mut [f32]) by add_dots_body
}

#[inline(always)]
fn add_dots_body<const FUSED: bool>(left: &[f32], right: &[f32], width: usize, out: &mut [f32]) {
    let (rows, columns) = (left.len() / width, right.len() / width);
    for r in (0..rows).step_by(4) {
        for c in (0..columns).step_by(2) {
            // Beyond the edge the last row or column is computed again, and not written.
            let a: [&[f32]; 4] = std::array::from_fn(|i| &left[(r + i).min(rows - 1) * width..][..width]);
            let b: [&[f32]; 2] = std::array::from_fn(|i| &right[(c + i).min(columns - 1) * width..][..width]);
            let mut sums = [[[0.0_f32; LANES]; 2]; 4];
            let whole = width / LANES;
            let a8 = a.map(|row| row.as_chunks::<LANES>().0);
            let b8 = b.map(|row| row.as_chunks::<LANES>().0);
            for m in 0..whole {
                for i in 0..4 {
                    for j in 0..2 {
                        for lane in 0..LANES {
                            sums[i][j][lane] = add_product::<FUSED>(a8[i][m][lane], b8[j][m][lane], sums[i][j][lane]);
                        }
                    }
                }
            }
            for i in 0..4.min(rows - r) {
                for j in 0..2.min(columns - c) {
                    let s = sums[i][j];
                    let mut total = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
                    for m in whole * LANES..width {
                        total += a[i][m] * b[j][m];
                    }
                    out[(r + i) * columns + c + j] += total;
                }
            }
        }
    }
}

fused! {
    /// `out[r] = Σ_i factors[r · by_row + i · by_column] matrix[i]`: `matrix [inner, width]`, `out [rows, width]`.
    fn combine(factors: &[f32], strides: [usize; 2], matrix: &[f32], width: usize, out: &mut [f32]) by combine_body
}

#[inline(always)]
fn combine_body<const FUSED: bool>(factors: &[f32], [by_row, by_column]: [usize; 2], matrix: &[f32], width: usize, out: &mut [f32]) {
    let (rows, inner) = (out.len() / width, matrix.len() / width);
    for r in (0..rows).step_by(4) {
        let at: [usize; 4] = std::array::from_fn(|k| (r + k).min(rows - 1) * by_row);
        let whole = width / WIDE;
        for block in 0..whole {
            let mut sums = [[0.0_f32; WIDE]; 4];
            for i in 0..inner {
                let row: &[f32; WIDE] = &matrix[i * width..][..width].as_chunks::<WIDE>().0[block];
                for k in 0..4 {
                    let factor = factors[at[k] + i * by_column];
                    for lane in 0..WIDE {
                        sums[k][lane] = add_product::<FUSED>(factor, row[lane], sums[k][lane]);
                    }
                }
            }
            for k in 0..4.min(rows - r) {
                out[(r + k) * width + block * WIDE..][..WIDE].copy_from_slice(&sums[k]);
            }
        }
        for m in whole * WIDE..width {
            for k in 0..4.min(rows - r) {
                out[(r + k) * width + m] = (0..inner).map(|i| factors[at[k] + i * by_column] * matrix[i * width + m]).sum();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 37 + seed * 11) % 23) as f32 - 11.0).collect()
    }

    /// Small whole numbers, so that every order of summation gives the same.
    #[test]
    fn products_equal_the_definition() {
        for (rows, columns, width) in [(1, 1, 1), (4, 2, 8), (5, 3, 19), (7, 6, 64), (3, 1, 40)] {
            let (left, right) = (numbers(rows * width, 1), numbers(columns * width, 2));
            let mut out = vec![1.0; rows * columns];
            add_dots(&left, &right, width, &mut out);
            for r in 0..rows {
                for c in 0..columns {
                    let expected: f32 = 1.0 + (0..width).map(|m| left[r * width + m] * right[c * width + m]).sum::<f32>();
                    assert_eq!(out[r * columns + c], expected);
                }
            }
            // `rows` sums of `columns` rows of width `width`, with factors stored either way.
            for strides in [[columns, 1], [1, rows]] {
                let (factors, matrix) = (numbers(rows * columns, 3), numbers(columns * width, 4));
                let mut out = vec![f32::NAN; rows * width];
                combine(&factors, strides, &matrix, width, &mut out);
                for r in 0..rows {
                    for m in 0..width {
                        let expected: f32 = (0..columns).map(|i| factors[r * strides[0] + i * strides[1]] * matrix[i * width + m]).sum();
                        assert_eq!(out[r * width + m], expected);
                    }
                }
            }
        }
    }
}
