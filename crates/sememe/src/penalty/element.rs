//! What the element-wise penalties share: the macro that makes `Σ_ij f(|J_ij|)` from f.

/// Implements `Member` and `Penalty` for `Σ_ij f(|J_ij|)`, batch mean: `$f` maps magnitudes to their terms.
macro_rules! element_wise {
    ($Type:ident, $about:literal, $source:literal, check: $check:expr, f: $f:expr) => {
        impl sememe_truth::catalogue::Member for $Type {
            const ABOUT: &'static str = $about;
            const SOURCE: &'static str = $source;
        }

        fn terms(penalty: &$Type, magnitudes: burn::tensor::Tensor<1>) -> burn::tensor::Tensor<1> {
            let f: fn(&$Type, burn::tensor::Tensor<1>) -> burn::tensor::Tensor<1> = $f;
            f(penalty, magnitudes)
        }

        impl $crate::penalty::Penalty for $Type {
            fn needs(&self) -> $crate::penalty::Needs {
                $crate::penalty::Needs::Columns
            }

            fn check(&self, _dz: usize, _dx: usize) -> Result<(), $crate::penalty::PenaltyError> {
                let check: fn(&Self) -> Result<(), $crate::penalty::PenaltyError> = $check;
                check(self)
            }

            fn value(&self, at: &$crate::penalty::Point<'_>) -> burn::tensor::Tensor<1> {
                let columns = at.columns();
                let [k, samples, dx] = columns.values.dims();
                let magnitudes = columns.values.clone().abs().reshape([k * samples * dx]);
                columns.batch_mean(terms(self, magnitudes))
            }

            fn elements(&self, magnitudes: burn::tensor::Tensor<1>) -> Option<burn::tensor::Tensor<1>> {
                Some(terms(self, magnitudes))
            }
        }
    };
}

pub(super) use element_wise;
