//! Columns of a Jacobian by finite differences: the oracle of every exact one, and the baseline penalty of Rhodes & Lee.
//!
//! Forward `(g(z + εv) − g(z))/ε`, error O(ε); central `(g(z + εv) − g(z − εv))/2ε`, error O(ε²).

use burn::tensor::Tensor;

use super::Tangents;

/// `J v` by forward differences; `z`, `v` of the input's shape.
pub fn forward_column<const I: usize, const O: usize>(
    map: &(impl Tangents<I, O> + ?Sized),
    z: Tensor<I>,
    v: Tensor<I>,
    epsilon: f64,
) -> Tensor<O> {
    (map.apply(z.clone() + v * epsilon) - map.apply(z)) / epsilon
}

/// `J v` by central differences; `z`, `v` of the input's shape.
pub fn central_column<const I: usize, const O: usize>(
    map: &(impl Tangents<I, O> + ?Sized),
    z: Tensor<I>,
    v: Tensor<I>,
    epsilon: f64,
) -> Tensor<O> {
    (map.apply(z.clone() + v.clone() * epsilon) - map.apply(z - v * epsilon)) / (2.0 * epsilon)
}
