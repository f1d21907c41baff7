//! Known truth in plain numbers: worlds whose factors are known, the structure of their Jacobian, and the metrics that compare what was learned with it.
//!
//! This is the lowest floor: no tensors, no disk, no clock. Everything is `f64`
//! in a [`Matrix`] whose rows are samples.
//!
//! - [`world`]: data with known factors (`latents [N, dz]` → `observed [N, dx]`).
//! - [`structure`]: supports, index sets, Venn atoms, which latents are identifiable and why.
//! - [`metric`]: MCC, block R², structure recovery, and the nulls that each is read against.
//!
//! ```
//! use sememe_truth::Matrix;
//! use sememe_truth::metric::Mcc;
//! use sememe_truth::structure::{Support, Verdict, verdicts};
//!
//! // Three observed variables; z0 and z1 move the same ones, z2 moves another.
//! let structure = Support::try_from(vec![vec![1, 1, 0], vec![1, 1, 0], vec![0, 0, 1]]).expect("a support");
//! let said = verdicts(&structure);
//! assert_eq!(said[0], Verdict::Block([0, 1].into()));
//! assert_eq!(said[2], Verdict::Alone);
//!
//! // Latents in another order and with another sign are recovered all the same.
//! let latents = Matrix::from_fn(100, 2, |n, j| ((n * (j + 2)) % 17) as f64);
//! let codes = Matrix::from_fn(100, 2, |n, j| -3.0 * latents[(n, 1 - j)]);
//! assert!((Mcc::default().matching(&latents, &codes).value - 1.0).abs() < 1e-12);
//! ```

pub mod catalogue;
pub mod metric;
pub mod random;
pub mod structure;
pub mod world;

/// A dense `f64` matrix; in data, rows are samples and columns are variables.
pub type Matrix = faer::Mat<f64>;
