//! The transformer of any family: embed, then layer by layer attention and MLP around the residual stream.
//!
//! Tokens of the whole batch are the rows of one matrix `[B·T, d]`, so every
//! projection is one product; only attention knows of B and T. The forward
//! pass stops at the last hook that is wanted.

use std::ops::ControlFlow;
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use sememe_kernels::forward::RopeTable;

use crate::hook::{Hook, Intervene, Keep, Place, Untouched};
use crate::layer::{Attention, DeltaNet, Maker, Mlp, Norm, Rope};
use crate::{Description, LmError, MixerKind, Tokens};

/// One layer.
#[derive(Module, Debug)]
pub(crate) struct Layer {
    pub attention_norm: Norm,
    pub attention: Option<Attention>,
    delta_net: Option<DeltaNet>,
    attention_post_norm: Option<Norm>,
    pub mlp_norm: Norm,
    pub mlp: Mlp,
    pub mlp_post_norm: Option<Norm>,
}

/// A hooked transformer.
#[derive(Module, Debug)]
pub struct Transformer {
    /// `[V, d]`.
    embed: Param<Tensor<2>>,
    /// `[positions, d]`.
    positions: Option<Param<Tensor<2>>>,
    layers: Vec<Layer>,
    final_norm: Norm,
    /// `[d, V]`, where it is not the transpose of `embed`.
    head: Option<Param<Tensor<2>>>,
    #[module(skip)]
    description: Arc<Description>,
}

/// Numbers of each tensor that enter the fingerprint.
const SAMPLED: usize = 1024;

/// What a pass through the layers needs besides the rows themselves.
struct Walk<'a> {
    hooks: &'a mut dyn Intervene,
    until: Option<Hook>,
    size: [usize; 2],
    full: Option<Arc<RopeTable>>,
    sliding: Option<Arc<RopeTable>>,
}

impl Walk<'_> {
    /// Shows the rows to the hooks, and ends the pass after the last that is wanted.
    fn at(&mut self, layer: usize, place: Place, rows: Tensor<2>) -> ControlFlow<Tensor<2>, Tensor<2>> {
        let hook = Hook { layer, place };
        let rows = if self.hooks.wants(hook) {
            let [tokens, width] = rows.dims();
            self.hooks.at(hook, rows.reshape([self.size[0], self.size[1], width])).reshape([tokens, width])
        } else {
            rows
        };
        if self.until == Some(hook) { ControlFlow::Break(rows) } else { ControlFlow::Continue(rows) }
    }
}

impl Layer {
    fn new(description: &Description, index: usize, maker: &Maker<'_>) -> Self {
        let kind = description.mixers[index];
        let name = |part: &str| format!("layers.{index}.{part}");
        let norm = || Norm::new(description, description.width, maker);
        let delta = description.delta.filter(|_| kind == MixerKind::DeltaNet);
        Self {
            attention_norm: norm(),
            attention: delta.is_none().then(|| Attention::new(description, kind, &name("attention"), maker)),
            delta_net: delta.map(|sizes| DeltaNet::new(description, sizes, &name("delta_net"), maker)),
            attention_post_norm: description.has_post_norms.then(norm),
            mlp_norm: norm(),
            mlp: Mlp::new(description, &name("mlp"), maker),
            mlp_post_norm: description.has_post_norms.then(norm),
        }
    }

    fn forward(
        &self,
        index: usize,
        kind: MixerKind,
        is_parallel: bool,
        before: Tensor<2>,
        walk: &mut Walk<'_>,
    ) -> ControlFlow<Tensor<2>, Tensor<2>> {
        let before = walk.at(index, Place::ResidPre, before)?;
        let read = self.attention_norm.forward(before.clone());
        let rope = if kind == MixerKind::Sliding { walk.sliding.clone() } else { walk.full.clone() };
        let mixed = match (&self.attention, &self.delta_net) {
            (Some(attention), _) => attention.forward(read, walk.size, rope),
            (None, Some(delta_net)) => delta_net.forward(read, walk.size),
            (None, None) => unreachable!("a layer mixes tokens one way or the other"),
        };
        let mixed = self.attention_post_norm.iter().fold(mixed, |x, norm| norm.forward(x));
        let mixed = walk.at(index, Place::AttnOut, mixed)?;
        let middle = walk.at(index, Place::ResidMid, mixed + before.clone())?;
        let read = self.mlp_norm.forward(if is_parallel { before } else { middle.clone() });
        let read = walk.at(index, Place::MlpIn, read)?;
        let hidden = walk.at(index, Place::MlpHidden, self.mlp.hidden(read))?;
        let output = self.mlp.output(hidden);
        let output = self.mlp_post_norm.iter().fold(output, |x, norm| norm.forward(x));
        let output = walk.at(index, Place::MlpOut, output)?;
        walk.at(index, Place::ResidPost, output + middle)
    }
}

impl Transformer {
    /// A fresh model: weights from N(0, `initial_std`²), those that write to the residual stream by `1/√(2 layers)` smaller
    /// (Radford et al. 2019); a function of the seed alone.
    pub fn init(description: &Description, seed: u64, device: &Device) -> Self {
        Self::build(description, &Maker { seed: Some(seed), device })
    }

    /// The model without its numbers, about to be loaded.
    pub(crate) fn empty(description: &Description, device: &Device) -> Self {
        Self::build(description, &Maker { seed: None, device })
    }

    fn build(description: &Description, maker: &Maker<'_>) -> Self {
        let Description { vocabulary, width, initial_std: std, .. } = *description;
        Self {
            embed: maker.matrix("embed", [vocabulary, width], std),
            positions: description.learned_positions.map(|count| maker.matrix("positions", [count, width], std)),
            layers: (0..description.layers()).map(|index| Layer::new(description, index, maker)).collect(),
            final_norm: Norm::new(description, width, maker),
            head: (!description.is_tied).then(|| maker.matrix("head", [width, vocabulary], std)),
            description: Arc::new(description.clone()),
        }
    }

    /// The layers, from the first.
    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// What the model is made of.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// What tells these weights from those of another model: 16 hexadecimal digits over the config and numbers of every tensor.
    pub fn fingerprint(&self) -> String {
        struct Fnv(u64);
        impl Fnv {
            fn add(&mut self, bytes: &[u8]) {
                bytes.iter().for_each(|byte| self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
            }
        }
        impl ModuleVisitor for Fnv {
            fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
                let value = parameter.val();
                let count = value.shape().num_elements();
                // A few numbers of each tensor tell models apart; all of a large model would take minutes.
                let picked: Vec<i32> = (0..SAMPLED.min(count)).map(|k| (k * (count / SAMPLED.min(count))) as i32).collect();
                let index: Tensor<1, Int> = Tensor::from_data(TensorData::new(picked.clone(), [picked.len()]), &value.device());
                let values = value.reshape([count]).select(0, index).into_data();
                values.iter::<f32>().for_each(|value| self.add(&value.to_le_bytes()));
            }
        }
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        hash.add(self.description.config.to_string().as_bytes());
        self.visit(&mut hash);
        format!("{:016x}", hash.0)
    }

    /// Where the model lies.
    pub fn device(&self) -> Device {
        self.embed.val().device()
    }

    /// Refuses what the model cannot run.
    fn check(&self, tokens: &Tokens) -> Result<(), LmError> {
        let vocabulary = self.description.vocabulary;
        if tokens.ids().is_empty() {
            return Err(LmError::NoTokens);
        }
        match (tokens.ids().iter().find(|&&id| id as usize >= vocabulary), self.description.learned_positions) {
            (Some(&id), _) => Err(LmError::Token { id, vocabulary }),
            (_, Some(most)) if tokens.length() > most => Err(LmError::TooLong { got: tokens.length(), most }),
            _ => Ok(()),
        }
    }

    fn check_hook(&self, hook: Hook) -> Result<(), LmError> {
        let last = self.description.layers() - 1;
        if hook.layer > last { Err(LmError::NoLayer { hook, last }) } else { Ok(()) }
    }

    /// Embeddings of the tokens, `[B·T, d]`.
    fn embed(&self, tokens: &Tokens) -> Tensor<2> {
        let device = self.device();
        let mut rows = self.embed.val().select(0, tokens.tensor(&device));
        if self.description.embedding_scale != 1.0 {
            rows = rows * self.description.embedding_scale;
        }
        if let Some(positions) = &self.positions {
            let [batch, length] = [tokens.batch(), tokens.length()];
            let width = self.description.width;
            let table = positions.val().narrow(0, 0, length).reshape([1, length, width]);
            rows = (rows.reshape([batch, length, width]) + table).reshape([batch * length, width]);
        }
        rows
    }

    /// From the residual stream before layer `first` to the end of the layers, or to where `until` stops it.
    fn walk(
        &self,
        rows: Tensor<2>,
        first: usize,
        size: [usize; 2],
        until: Option<Hook>,
        hooks: &mut dyn Intervene,
    ) -> ControlFlow<Tensor<2>, Tensor<2>> {
        let description = &self.description;
        let table = |rope: &Rope| Arc::new(RopeTable::new(&rope.frequencies(), size[1]));
        let full = description.rope.as_ref().map(table);
        let sliding = description.sliding_rope.as_ref().map(table).or_else(|| full.clone());
        let mut walk = Walk { hooks, until, size, full, sliding };
        self.layers.iter().enumerate().skip(first).try_fold(rows, |rows, (index, layer)| {
            layer.forward(index, description.mixers[index], description.is_parallel, rows, &mut walk)
        })
    }

    /// Runs the layers and returns the residual stream after the last, or the activation at `until`, after which nothing is
    /// computed; `[B, T, width]`.
    ///
    /// # Errors
    /// Tokens that the model cannot take, or a layer that it does not have.
    pub fn forward(&self, tokens: &Tokens, until: Option<Hook>, hooks: &mut dyn Intervene) -> Result<Tensor<3>, LmError> {
        self.check(tokens)?;
        until.map_or(Ok(()), |hook| self.check_hook(hook))?;
        let size = [tokens.batch(), tokens.length()];
        let (ControlFlow::Break(rows) | ControlFlow::Continue(rows)) = self.walk(self.embed(tokens), 0, size, until, hooks);
        let width = rows.dims()[1];
        Ok(rows.reshape([size[0], size[1], width]))
    }

    /// The activations `[B, T, width]` at the hooks, in their order; nothing after the last of them is computed.
    ///
    /// # Errors
    /// Those of [`Transformer::forward`].
    pub fn read(&self, tokens: &Tokens, hooks: &[Hook]) -> Result<Vec<Tensor<3>>, LmError> {
        hooks.iter().try_for_each(|&hook| self.check_hook(hook))?;
        let mut keep = Keep { wanted: hooks, kept: vec![None; hooks.len()] };
        if let Some(&last) = hooks.iter().max() {
            self.forward(tokens, Some(last), &mut keep)?;
        }
        Ok(keep.kept.into_iter().flatten().collect())
    }

    /// From the residual stream `[B, T, d]` before layer `first` to that after the last: what follows an activation that was
    /// read earlier and changed, without the layers before it.
    ///
    /// # Errors
    /// A layer that the model does not have.
    pub fn resume(&self, resid_pre: Tensor<3>, first: usize, hooks: &mut dyn Intervene) -> Result<Tensor<3>, LmError> {
        self.check_hook(Hook { layer: first, place: Place::ResidPre })?;
        let [batch, length, width] = resid_pre.dims();
        let rows = resid_pre.reshape([batch * length, width]);
        let (ControlFlow::Break(rows) | ControlFlow::Continue(rows)) = self.walk(rows, first, [batch, length], None, hooks);
        Ok(rows.reshape([batch, length, width]))
    }

    /// Logits of rows `[N, d]` of the residual stream after the last layer, `[N, V]`.
    pub fn unembed(&self, rows: Tensor<2>) -> Tensor<2> {
        let rows = self.final_norm.forward(rows);
        let logits = match &self.head {
            Some(head) => rows.matmul(head.val()),
            None => rows.matmul(self.embed.val().transpose()),
        };
        match self.description.logit_cap {
            Some(cap) => (logits / cap).tanh() * cap,
            None => logits,
        }
    }

    /// Logits `[B, T, V]`, with interventions on the way.
    ///
    /// # Errors
    /// Those of [`Transformer::forward`].
    pub fn logits_with(&self, tokens: &Tokens, hooks: &mut dyn Intervene) -> Result<Tensor<3>, LmError> {
        let hidden = self.forward(tokens, None, hooks)?;
        let [batch, length, width] = hidden.dims();
        Ok(self.unembed(hidden.reshape([batch * length, width])).reshape([batch, length, self.description.vocabulary]))
    }

    /// Logits `[B, T, V]`.
    ///
    /// # Errors
    /// Those of [`Transformer::forward`].
    pub fn logits(&self, tokens: &Tokens) -> Result<Tensor<3>, LmError> {
        self.logits_with(tokens, &mut Untouched)
    }
}
