//! Nonlinear dictionary learning: generators whose hidden factors can be identified, and the penalties that identify them.
//!
//! - [`dictionary`]: sparse codes of activations with a linear decoder.
//! - [`jacobian`]: layers that push tangents forward beside their values.
//! - [`penalty`]: numbers that make the Jacobian sparse, one file each.
//! - [`schedule`]: how weights and learning rates change, and the guard.
//! - [`generative`]: models with an encoder and a generator.
//! - [`train`]: the loop, which knows no file, clock or printer.
//!
//! ```
//! use burn::tensor::{Device, Distribution, Tensor};
//! use sememe::generative::VaeConfig;
//! use sememe::penalty::PenaltyKind;
//! use sememe::train::{Event, Fit, Flow, Objective, Observer, Plan, Term};
//!
//! struct Silent;
//! impl<M> Observer<M> for Silent {
//!     fn observe(&mut self, _: &Event<'_>, _: &Fit<M>) -> Flow {
//!         Flow::Continue
//!     }
//! }
//!
//! let device = Device::flex().autodiff();
//! let data = Tensor::<2>::random([200, 6], Distribution::Normal(0.0, 1.0), &device);
//! // A VAE of two latents whose Jacobian is kept sparse.
//! let model = VaeConfig { dz: 2, ..VaeConfig::default() }.init(6, 0, &device)?;
//! let penalty = PenaltyKind::DependencyL1(Default::default());
//! let (plan, terms) = (Plan { steps: 10, batch: 50, ..Plan::default() }, [Term::new(penalty, 0.01)]);
//! let fit = Fit::new(model, &plan, &terms, 0).run(&data, &plan, &terms, &mut Silent)?;
//! let codes = fit.model.encode(data);
//! assert_eq!(codes.dims(), [200, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod block;
pub mod dictionary;
pub mod generative;
pub mod jacobian;
pub mod pair;
pub mod penalty;
pub mod schedule;
pub mod train;

pub use sememe_kernels::Activation;
