//! What a transformer is made of, read from its `config.json`: plain data, which any family fills in.

use std::path::{Path, PathBuf};

use sememe_kernels::Activation;
use serde_json::Value;

use crate::LmError;
use crate::family::{self, Family};
use crate::layer::Rope;

/// Sizes from here on are taken for damage to the file.
const MOST: u64 = 1 << 24;
/// More layers than this are, too.
const MOST_LAYERS: usize = 10_000;

/// How rows are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// By their root mean square, times a gain.
    Rms,
    /// By their root mean square, times 1 + a gain.
    RmsFromOne,
    /// By mean and variance, with gain and bias.
    Layer,
}

/// What mixes the tokens of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixerKind {
    /// Attention to all tokens before.
    Full,
    /// Attention to the tokens in a window.
    Sliding,
    /// The gated delta rule.
    DeltaNet,
}

/// Sizes of the layers with a gated delta rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaSizes {
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Heads of values.
    pub value_heads: usize,
    /// Width of a query or key.
    pub key_width: usize,
    /// Width of a value.
    pub value_width: usize,
    /// Taps of the causal convolution before the rule.
    pub taps: usize,
}

/// A transformer without its numbers.
#[derive(Clone, Debug)]
pub struct Description {
    /// Which family's names the tensors have.
    pub family: &'static Family,
    /// V.
    pub vocabulary: usize,
    /// d, the width of the residual stream.
    pub width: usize,
    /// m, the width of the MLP's hidden layer.
    pub mlp_width: usize,
    /// One a layer.
    pub mixers: Vec<MixerKind>,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_width: usize,
    /// Every norm of the residual stream.
    pub norm: NormKind,
    /// ε of the norms.
    pub norm_epsilon: f64,
    /// Learned positions, added to the embeddings.
    pub learned_positions: Option<usize>,
    /// Rotation in layers of [`MixerKind::Full`].
    pub rope: Option<Rope>,
    /// Rotation in layers of [`MixerKind::Sliding`], where it differs.
    pub sliding_rope: Option<Rope>,
    /// Positions that a sliding layer sees.
    pub window: Option<usize>,
    /// α on the scores.
    pub score_scale: f64,
    /// Soft cap of the scores.
    pub score_cap: Option<f64>,
    /// Soft cap of the logits.
    pub logit_cap: Option<f64>,
    /// φ of the MLP.
    pub activation: Activation,
    /// Whether the hidden layer is `φ(gate) ⊙ up`.
    pub is_gated: bool,
    /// Whether queries, keys and values have biases.
    pub has_qkv_bias: bool,
    /// Whether attention's output projection has a bias.
    pub has_output_bias: bool,
    /// Whether the MLP's projections have biases.
    pub has_mlp_bias: bool,
    /// Whether queries and keys are normalised a head.
    pub has_qk_norm: bool,
    /// Whether the outputs of attention and MLP are normalised before they are added.
    pub has_post_norms: bool,
    /// Whether attention's output is gated by a sigmoid of its input.
    pub has_output_gate: bool,
    /// Whether attention and MLP read the same residual stream.
    pub is_parallel: bool,
    /// Factor on the embeddings.
    pub embedding_scale: f64,
    /// Whether logits are read off with the embeddings.
    pub is_tied: bool,
    /// Sizes of the delta-net layers, where there are any.
    pub delta: Option<DeltaSizes>,
    /// Standard deviation of fresh weights.
    pub initial_std: f64,
    /// The `config.json` of which this is a reading; saved with the weights.
    pub config: Value,
}

impl Description {
    /// The description in a `config.json`'s text; `file` is for messages.
    ///
    /// # Errors
    /// An unknown architecture, or a key that is missing or makes no sense.
    pub fn from_json(text: &str, file: &Path) -> Result<Self, LmError> {
        let json = serde_json::from_str(text)
            .map_err(|error| LmError::Corrupt { file: file.to_path_buf(), problem: format!("not JSON: {error}") })?;
        family::describe(&Config::new(json, file.to_path_buf()))
    }

    /// The plainest transformer of the config's sizes, from which families depart: RMS norm, gated SiLU MLP, no biases, tied.
    pub(crate) fn plain(family: &'static Family, config: &Config) -> Result<Self, LmError> {
        let (width, heads) = (config.count("hidden_size")?, config.count("num_attention_heads")?);
        let kv_heads = config.count_or("num_key_value_heads", heads)?;
        let head_width = config.count_or("head_dim", width / heads)?;
        if head_width == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(config.wrong("num_key_value_heads", &format!("is {kv_heads}, which does not divide {heads} heads")));
        }
        let layers = config.count("num_hidden_layers")?;
        if layers > MOST_LAYERS {
            return Err(config.wrong("num_hidden_layers", &format!("is {layers}; at most {MOST_LAYERS} are believed")));
        }
        let rope = Rope::read(config, &config.json, head_width)?;
        Ok(Self {
            family,
            vocabulary: config.count("vocab_size")?,
            width,
            mlp_width: config.count("intermediate_size")?,
            mixers: vec![MixerKind::Full; layers],
            heads,
            kv_heads,
            head_width,
            norm: NormKind::Rms,
            norm_epsilon: config.number_or("rms_norm_eps", 1e-6)?,
            learned_positions: None,
            rope: Some(rope),
            sliding_rope: None,
            window: None,
            score_scale: (head_width as f64).powf(-0.5),
            score_cap: None,
            logit_cap: None,
            activation: config.activation(&["hidden_act", "hidden_activation", "activation_function"], "silu")?,
            is_gated: true,
            has_qkv_bias: false,
            has_output_bias: false,
            has_mlp_bias: false,
            has_qk_norm: false,
            has_post_norms: false,
            has_output_gate: false,
            is_parallel: false,
            embedding_scale: 1.0,
            is_tied: config.flag_or("tie_word_embeddings", true)?,
            delta: None,
            initial_std: config.number_or("initializer_range", 0.02)?,
            config: config.json.clone(),
        })
    }

    /// Layers.
    pub fn layers(&self) -> usize {
        self.mixers.len()
    }

    /// Width of the activation at a place.
    pub fn width_at(&self, place: crate::Place) -> usize {
        if place == crate::Place::MlpHidden { self.mlp_width } else { self.width }
    }
}

/// A `config.json` with typed access to its keys.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) json: Value,
    pub(crate) file: PathBuf,
}

impl Config {
    /// The config in `json`; `file` is for messages. Models of text inside larger ones keep their part under `text_config`.
    pub fn new(json: Value, file: PathBuf) -> Self {
        let mut json = json;
        if let Some(Value::Object(text)) = json.get("text_config").cloned() {
            let tied = json.get("tie_word_embeddings").cloned();
            json = Value::Object(text);
            if let (Some(tied), None) = (tied, json.get("tie_word_embeddings")) {
                json["tie_word_embeddings"] = tied;
            }
        }
        Self { json, file }
    }

    pub(crate) fn wrong(&self, key: &str, problem: &str) -> LmError {
        LmError::Key { file: self.file.clone(), key: key.to_string(), problem: problem.to_string() }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    /// A whole number above 0.
    pub(crate) fn count(&self, key: &str) -> Result<usize, LmError> {
        let value = self.get(key).ok_or_else(|| self.wrong(key, "is missing; it must be a whole number above 0"))?;
        let count = value.as_u64().filter(|&count| count > 0 && count < MOST);
        count
            .map(|count| count as usize)
            .ok_or_else(|| self.wrong(key, &format!("is {value}; it must be a whole number above 0 and below {MOST}")))
    }

    pub(crate) fn count_or(&self, key: &str, default: usize) -> Result<usize, LmError> {
        if self.get(key).is_some() { self.count(key) } else { Ok(default) }
    }

    pub(crate) fn number_or(&self, key: &str, default: f64) -> Result<f64, LmError> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value
                .as_f64()
                .filter(|number| number.is_finite())
                .ok_or_else(|| self.wrong(key, &format!("is {value}; it must be a number"))),
        }
    }

    /// A number above 0, if the key is there at all.
    pub(crate) fn positive(&self, key: &str) -> Result<Option<f64>, LmError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.as_f64().filter(|&number| number.is_finite() && number > 0.0) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(key, &format!("is {value}; it must be a number above 0"))),
            },
        }
    }

    pub(crate) fn flag_or(&self, key: &str, default: bool) -> Result<bool, LmError> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(key, &format!("is {value}; it must be true or false"))),
        }
    }

    pub(crate) fn activation(&self, keys: &[&str], default: &str) -> Result<Activation, LmError> {
        let key = keys.iter().find(|key| self.get(key).is_some()).copied().unwrap_or(keys[0]);
        let name = match self.get(key) {
            None => default,
            Some(value) => value.as_str().ok_or_else(|| self.wrong(key, "must be a string"))?,
        };
        match name {
            "silu" | "swish" => Ok(Activation::Silu),
            "gelu" => Ok(Activation::Gelu),
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluTanh),
            "relu" => Ok(Activation::Relu),
            other => Err(self.wrong(key, &format!("is `{other}`; known are silu, gelu, gelu_new, gelu_pytorch_tanh and relu"))),
        }
    }

    /// The kind of each of `layers` layers by `layer_types`, if it is there.
    pub(crate) fn layer_types(&self, layers: usize) -> Result<Option<Vec<MixerKind>>, LmError> {
        let Some(value) = self.get("layer_types") else { return Ok(None) };
        let kind = |value: &Value| match value.as_str() {
            Some("full_attention") => Ok(MixerKind::Full),
            Some("sliding_attention") => Ok(MixerKind::Sliding),
            Some("linear_attention") => Ok(MixerKind::DeltaNet),
            _ => Err(self.wrong("layer_types", &format!("has {value}; known are full_attention, sliding_attention and linear_attention"))),
        };
        let kinds = value.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        if kinds.len() == layers {
            Ok(Some(kinds))
        } else {
            Err(self.wrong("layer_types", &format!("has {} entries for {layers} layers", kinds.len())))
        }
    }
}
