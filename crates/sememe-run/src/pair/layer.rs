//! From a language model and two hooks to the frozen layer between them.

use sememe::pair::{Attention, FrozenNorm, Layer};
use sememe_lm::{Hook, MlpParts, NormParts, Place, Transformer};

use super::config::Config;
use crate::activations::{Activations, Hooks};
use crate::error::RunError;

fn frozen(norm: NormParts) -> FrozenNorm {
    FrozenNorm { is_centred: norm.is_centred, factor: norm.factor, bias: norm.bias, epsilon: norm.epsilon }
}

/// The layer from hook `from` to hook `to` of the same layer, for activations multiplied by `scales`.
///
/// # Errors
/// Hooks between which no MLP lies alone, or a layer that the model does not have.
pub fn layer_between(model: &Transformer, from: Hook, to: Hook, scales: (f64, f64)) -> Result<Layer, RunError> {
    let refuse = |why: &str| {
        Err(RunError::Data(format!(
            "no MLP lies between {from} and {to}: {why}; give mlp_in and mlp_out of a layer, or resid_mid with mlp_out or resid_post"
        )))
    };
    if from.layer != to.layer {
        return refuse("they are of different layers");
    }
    let MlpParts { norm, up, up_bias, down, down_bias, activation, is_gated, post_norm, is_parallel } = model.mlp_parts(from.layer)?;
    let (has_norm, is_residual) = match (from.place, to.place) {
        (Place::MlpIn, Place::MlpOut) => (false, false),
        (Place::ResidMid, Place::MlpOut) if !is_parallel => (true, false),
        (Place::ResidMid, Place::ResidPost) if !is_parallel => (true, true),
        (Place::ResidPre, Place::MlpOut) if is_parallel => (true, false),
        (Place::ResidMid, _) if is_parallel => {
            return refuse("in this model the MLP reads the residual stream before attention (resid_pre)");
        }
        _ => return refuse("something else lies there"),
    };
    Ok(Layer {
        into: up,
        into_bias: up_bias,
        out: down,
        out_bias: down_bias,
        activation,
        is_gated,
        norm_before: has_norm.then(|| frozen(norm)),
        norm_after: post_norm.map(frozen),
        is_residual,
        scale_in: scales.0,
        scale_out: scales.1,
    })
}

/// The attention of layer `layer` as plain matrices, from the residual stream before it to what it adds.
///
/// # Errors
/// Attention for which there is no closed form.
pub fn attention_of(model: &Transformer, layer: usize) -> Result<Attention, RunError> {
    let parts = model.attention_parts(layer)?;
    let (heads, kv_heads) = (parts.heads, parts.kv_heads);
    let e = parts.output.dims()[0] / heads;
    let bounds = [(0, heads * e), (heads * e, kv_heads * e), ((heads + kv_heads) * e, kv_heads * e)];
    let [query, key, value] = bounds.map(|(from, width)| parts.qkv.clone().narrow(1, from, width));
    Ok(Attention {
        norm: Some(frozen(parts.norm)),
        query,
        key,
        value,
        biases: parts.qkv_bias.map(|bias| bounds.map(|(from, width)| bias.clone().narrow(0, from, width))),
        out: parts.output,
        out_bias: parts.output_bias,
        heads,
        kv_heads,
        score_scale: parts.score_scale,
        window: parts.window,
        frequencies: parts.frequencies,
    })
}

/// The two hooks of a pair: those that the config names, or the only pair of mlp_in and mlp_out that there is.
///
/// # Errors
/// Hooks that are not in the activations, or not named where there are several.
pub fn hooks_of(config: &Config, source: &Activations) -> Result<(Hooks, [Hook; 2]), RunError> {
    let refuse = |message: String| Err(RunError::Data(format!("{}: {message}", source.path.display())));
    let known: Vec<Hook> = source.manifest.hooks.iter().filter_map(|info| info.hook.parse().ok()).collect();
    let names = match (&config.data.hooks[..], &config.data.target) {
        ([from], Some(to)) => [from.clone(), to.clone()],
        _ => {
            let inputs: Vec<&Hook> = known.iter().filter(|hook| hook.place == Place::MlpIn).collect();
            let [input] = &inputs[..] else {
                let listed = known.iter().map(Hook::to_string).collect::<Vec<_>>().join(", ");
                return refuse(format!(
                    "a pair needs what enters a layer and what leaves it, and there is {listed}; harvest both (--hook mlp_in,mlp_out), or name them with data.hooks and data.target"
                ));
            };
            [input.to_string(), Hook::new(input.layer, Place::MlpOut).to_string()]
        }
    };
    let scaled = config.data.scaled.unwrap_or(true);
    let of = |name: &String| source.hook(name).map(|hook| (hook, if scaled { source.scale(hook) } else { 1.0 }));
    let (input, target) = (of(&names[0])?, of(&names[1])?);
    let hook = |index: usize| source.manifest.hooks[index].hook.parse::<Hook>().map_err(RunError::Data);
    Ok((Hooks { input: vec![input], target: vec![target] }, [hook(input.0)?, hook(target.0)?]))
}

/// The model of the activations, if it is the one that made them.
pub(super) fn model_of(given: Option<&str>, source: &Activations) -> Result<(Transformer, sememe_lm::Tokenizer), RunError> {
    let given = given.unwrap_or(&source.manifest.model);
    let (model, tokenizer) = sememe_lm::load(given, &burn::tensor::Device::flex())?;
    if model.fingerprint() != source.manifest.fingerprint {
        return Err(crate::activations::ActivationsError::Mismatch {
            path: source.path.clone(),
            message: format!("`{given}` is not the model whose activations these are ({}); give that one", source.manifest.model),
        }
        .into());
    }
    Ok((model, tokenizer))
}
