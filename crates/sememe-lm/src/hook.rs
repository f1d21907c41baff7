//! The places in a layer at which activations are read and replaced.
//!
//! A layer computes, with `r` the residual stream and each norm where the family has one:
//!
//! ```text
//! resid_pre   r
//! attn_out    a = norm(attention(norm(r)))
//! resid_mid   r + a
//! mlp_in      n = norm(r + a)           of r alone where attention and MLP run in parallel
//! mlp_hidden  h = φ(n W_up)             φ(n W_gate) ⊙ n W_up where it is gated
//! mlp_out     m = norm(h W_down)
//! resid_post  r + a + m
//! ```
//!
//! What is returned for a place is what the rest of the model sees.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Tensor;

/// A place in a layer, in the order of computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The residual stream before the layer, `d` wide.
    ResidPre,
    /// What attention (or the layer's other mixer of tokens) adds to the residual stream.
    AttnOut,
    /// The residual stream between attention and MLP.
    ResidMid,
    /// The normalised input of the MLP.
    MlpIn,
    /// The input of the MLP's down projection, `m` wide.
    MlpHidden,
    /// What the MLP adds to the residual stream.
    MlpOut,
    /// The residual stream after the layer.
    ResidPost,
}

impl Place {
    /// Every place, in the order of computation.
    pub const ALL: [Self; 7] = [Self::ResidPre, Self::AttnOut, Self::ResidMid, Self::MlpIn, Self::MlpHidden, Self::MlpOut, Self::ResidPost];

    /// The name in configs and on the command line.
    pub fn tag(self) -> &'static str {
        match self {
            Self::ResidPre => "resid_pre",
            Self::AttnOut => "attn_out",
            Self::ResidMid => "resid_mid",
            Self::MlpIn => "mlp_in",
            Self::MlpHidden => "mlp_hidden",
            Self::MlpOut => "mlp_out",
            Self::ResidPost => "resid_post",
        }
    }
}

/// A place in a layer of the model, written `12.mlp_out`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hook {
    /// The layer, from 0.
    pub layer: usize,
    /// Where in it.
    pub place: Place,
}

impl Hook {
    /// `place` in `layer`.
    pub fn new(layer: usize, place: Place) -> Self {
        Self { layer, place }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.layer, self.place.tag())
    }
}

impl FromStr for Hook {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let places = || Place::ALL.map(Place::tag).join(", ");
        let wrong = || format!("`{text}` is no hook; write layer and place as `12.mlp_out`, the places are {}", places());
        let (layer, place) = text.split_once('.').ok_or_else(wrong)?;
        let place = Place::ALL.into_iter().find(|known| known.tag() == place).ok_or_else(wrong)?;
        Ok(Self { layer: layer.parse().map_err(|_| wrong())?, place })
    }
}

/// Reads and replaces activations; any `FnMut(Hook, Tensor<3>) -> Tensor<3>` does.
pub trait Intervene {
    /// Whether [`Intervene::at`] is to be called there.
    fn wants(&self, _hook: Hook) -> bool {
        true
    }

    /// Gets the activation `[B, T, width]` and returns the one with which the model goes on.
    fn at(&mut self, hook: Hook, value: Tensor<3>) -> Tensor<3>;
}

impl<F: FnMut(Hook, Tensor<3>) -> Tensor<3>> Intervene for F {
    fn at(&mut self, hook: Hook, value: Tensor<3>) -> Tensor<3> {
        self(hook, value)
    }
}

/// Leaves the model as it is.
pub struct Untouched;

impl Intervene for Untouched {
    fn wants(&self, _hook: Hook) -> bool {
        false
    }

    fn at(&mut self, _hook: Hook, value: Tensor<3>) -> Tensor<3> {
        value
    }
}

/// Keeps the activations at some hooks.
pub(crate) struct Keep<'a> {
    pub wanted: &'a [Hook],
    pub kept: Vec<Option<Tensor<3>>>,
}

impl Intervene for Keep<'_> {
    fn wants(&self, hook: Hook) -> bool {
        self.wanted.contains(&hook)
    }

    fn at(&mut self, hook: Hook, value: Tensor<3>) -> Tensor<3> {
        for (wanted, kept) in self.wanted.iter().zip(&mut self.kept) {
            if *wanted == hook {
                *kept = Some(value.clone());
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_read_as_they_are_written_and_ordered_as_computed() {
        for place in Place::ALL {
            let hook = Hook::new(3, place);
            assert_eq!(hook.to_string().parse::<Hook>(), Ok(hook));
        }
        assert!(Place::ALL.is_sorted());
        assert!(Hook::new(2, Place::ResidPost) < Hook::new(3, Place::ResidPre));
        assert!("3.mlp".parse::<Hook>().is_err_and(|message| message.contains("mlp_hidden")));
    }
}
