//! What the trained model is worth on held-out text: nats a token and a byte, beside models that only count, and a few continuations.
//!
//! Every token of a held-out document is predicted once, from the tokens
//! before it in its row; rows have the length of the model's context and
//! share one token, so the first of a row are predicted from few. The
//! baselines predict the same tokens. Bytes are those of the text, so nats a
//! byte compare models of different vocabularies.

use burn::tensor::Device;
use sememe_lm::{Tokenizer, Tokens, Transformer};
use sememe_truth::random::stream;
use serde::{Deserialize, Serialize};

use super::baseline::{Baseline, KneserNey, Unigram};
use super::config::Config;
use super::corpus::{Corpus, HeldOut, Summary};
use super::sample;
use crate::error::RunError;

/// The order of the n-gram model.
const ORDER: usize = 5;
/// Rows that are evaluated at a time.
const ROWS: usize = 16;
/// Held-out documents of which a continuation is shown.
const SAMPLES: usize = 4;
/// Tokens of the document that a continuation begins with.
const PROMPT: usize = 32;
/// Tokens of a continuation.
const CONTINUATION: usize = 96;
/// τ of the drawn continuations.
const TEMPERATURE: f64 = 0.8;

/// One model's score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The model.
    pub model: String,
    /// Mean cross-entropy a predicted token, in nats.
    pub nats_per_token: f64,
    /// The same sum over the bytes of the text, in nats.
    pub nats_per_byte: f64,
}

/// A continuation of a held-out document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// How the document begins.
    pub prompt: String,
    /// The likeliest token each time.
    pub greedy: String,
    /// Tokens drawn from the model.
    pub drawn: String,
}

/// `evaluation.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// The transformer, then the baselines.
    pub lines: Vec<Line>,
    /// Continuations.
    pub samples: Vec<Sample>,
    /// The text.
    pub corpus: Summary,
    /// Numbers that were trained.
    pub parameters: usize,
    /// Times that the training text was seen.
    pub epochs: f64,
    /// Seconds a step, where the run was trained in one go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_per_step: Option<f64>,
}

/// Nats of all predicted tokens of the documents together, in rows of `context` tokens.
///
/// # Errors
/// Tokens that the model does not have.
pub fn held_out_nats(model: &Transformer, documents: &[HeldOut], context: usize) -> Result<f64, RunError> {
    let rows: Vec<Vec<u32>> = documents.iter().flat_map(|document| document.rows(context)).map(<[u32]>::to_vec).collect();
    let mut sum = 0.0;
    for rows in rows.chunks(ROWS) {
        let nats = model.nats(&Tokens::new(rows))?;
        sum += nats.per_token.iter().flatten().map(|&nats| f64::from(nats)).sum::<f64>();
    }
    Ok(sum)
}

/// Scores the saved model in `folder` and the baselines on the held-out text.
pub(super) fn evaluate(
    config: &Config,
    corpus: &Corpus,
    folder: &std::path::Path,
    epochs: f64,
    seconds_per_step: Option<f64>,
) -> Result<Evaluation, RunError> {
    let (model, tokenizer) = sememe_lm::load(&folder.display().to_string(), &Device::flex())?;
    let context = config.transformer.context;
    let line = |model: String, nats: f64| Line {
        model,
        nats_per_token: nats / corpus.summary.held_out_tokens as f64,
        nats_per_byte: nats / corpus.summary.held_out_bytes as f64,
    };
    let vocabulary = config.transformer.vocabulary;
    let mut lines = vec![line("transformer".into(), held_out_nats(&model, &corpus.held_out, context)?)];
    let baselines: [Box<dyn Baseline>; 2] =
        [Box::new(KneserNey::new(&corpus.train, ORDER, vocabulary)), Box::new(Unigram::new(&corpus.train, vocabulary))];
    lines.extend(baselines.iter().map(|baseline| line(baseline.name(), baseline.nats(&corpus.held_out))));
    Ok(Evaluation {
        lines,
        samples: samples(config, corpus, &model, &tokenizer)?,
        corpus: corpus.summary.clone(),
        parameters: burn::module::Module::num_params(&model),
        epochs,
        seconds_per_step,
    })
}

fn samples(config: &Config, corpus: &Corpus, model: &Transformer, tokenizer: &Tokenizer) -> Result<Vec<Sample>, RunError> {
    let context = config.transformer.context;
    let prompt_length = PROMPT.min(context / 2).max(1);
    let step = (corpus.held_out.len() / SAMPLES).max(1);
    let documents = corpus.held_out.iter().filter(|document| document.tokens.len() > prompt_length).step_by(step).take(SAMPLES);
    documents
        .enumerate()
        .map(|(number, document)| {
            let (prompt, end) = (&document.tokens[..=prompt_length], document.tokens[0]);
            let count = CONTINUATION.min(context.saturating_sub(prompt.len()));
            let random = &mut stream(config.seed, &format!("sample/{number}"));
            let drawn = sample::draw(model, prompt, CONTINUATION, context, end, TEMPERATURE, random)?;
            Ok(Sample {
                prompt: tokenizer.decode(prompt)?,
                greedy: tokenizer.decode(&model.generate(prompt, count, &[end])?)?,
                drawn: tokenizer.decode(&drawn)?,
            })
        })
        .collect()
}
