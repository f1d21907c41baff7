//! A run from text to a model that other programs open: tokenizer, tokens, training with its observers, evaluation.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use burn::tensor::Device;
use sememe::train::{Adam, Event, Fit, Flow, NamedTensors, OBJECTIVE, Observer, TrainError, gradients_of, parameters};
use sememe_lm::{Precision, Tokenizer, Transformer, save};
use serde_json::Value;

use super::batch::Batches;
use super::bpe;
use super::config::Config;
use super::corpus::{Corpus, Summary, Text};
use super::evaluate::{Evaluation, evaluate};
use super::page::write_report;
use crate::checkpoint;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::observe::RunObserver;
use crate::start::{Outcome, RunOptions, label_of, open_run};

/// The trained model in a run's folder, as Hugging Face's programs want it.
const MODEL: &str = "model";
const TOKENIZER: &str = "tokenizer.json";
const CORPUS: &str = "corpus.json";

/// Trains and evaluates what `config` describes, in the folder `path`.
///
/// # Errors
/// Text that cannot be read or is too short, a folder that holds something else, numbers that are not finite.
pub fn train(config: &Config, path: &Path, options: &RunOptions) -> Result<Outcome<Evaluation>, RunError> {
    let text = Text::read(&config.text, config.seed)?;
    let json = if options.resume { RunFolder::read(path)?.read_json(TOKENIZER)? } else { None };
    let (tokenizer, json) = tokenizer(config, &text, json, path)?;
    let corpus = Corpus::read(&text, &tokenizer)?;
    check_amount(config, &corpus.summary)?;
    let folder = open_run(path, &config.to_toml()?, config.seed, options)?;
    check_same(&folder, &corpus.summary)?;
    folder.write_json(TOKENIZER, &json)?;
    folder.write_json(CORPUS, &serde_json::json!(corpus.summary))?;

    let device = Device::flex().autodiff();
    let end = tokenizer.id(bpe::END_OF_TEXT).unwrap_or_default();
    let model = Transformer::init(&config.transformer.describe(end)?, config.seed, &device);
    let plan = &config.training;
    let saved = if options.resume { checkpoint::load(&folder, model.clone(), &plan.adam, 0, &device.inner())? } else { None };
    let fit = saved.unwrap_or_else(|| Fit::resume(model, Adam::new(plan.adam.clone()), 0, Vec::new(), config.seed));
    folder.cut_metrics_after(fit.step)?;
    let every = (config.output.log_every, config.output.checkpoint_every);
    let save_state = |fit: &Fit<Transformer>| checkpoint::save(&folder, fit, &NamedTensors::new());
    let (label, steps) = (label_of(path), (fit.step, plan.steps));
    let mut observer = RunObserver::new(&folder, &save_state, &label, steps, every, options.verbosity, options.interrupt.clone());
    let (started, from) = (Instant::now(), fit.step);
    let mut batches = Batches::new(&corpus.train, config.seed, plan.batch, config.transformer.context);
    let epochs = batches.epochs(plan.steps);
    let trained = fit_to(fit, config, &mut batches, &mut observer);
    observer.finish();
    if let Some(failure) = observer.failure {
        return Err(failure);
    }
    let fit = trained?;
    save_state(&fit)?;
    if fit.step < plan.steps {
        return Ok(Outcome::Interrupted { step: fit.step });
    }
    let seconds_per_step = (from == 0).then(|| started.elapsed().as_secs_f64() / plan.steps as f64);
    write_model(&fit.model, &json, config, &folder)?;
    let evaluation = evaluate(config, &corpus, &path.join(MODEL), epochs, seconds_per_step)?;
    folder.write_json("evaluation.json", &serde_json::json!(evaluation))?;
    write_report(&folder, config, &evaluation)?;
    folder.mark_finished()?;
    Ok(Outcome::Finished(Box::new(evaluation)))
}

/// The trained model of a run folder, evaluated again.
///
/// # Errors
/// A folder without a trained model, or text that is no longer what it was.
pub fn evaluate_again(path: &Path) -> Result<Evaluation, RunError> {
    let folder = RunFolder::open(path)?;
    let config = Config::parse(&folder.read_config()?, &path.join("config.toml").display().to_string(), &[])?;
    let before: Option<Evaluation> = folder.read_json("evaluation.json")?;
    if !path.join(MODEL).is_dir() {
        return Err(RunError::Data(format!("{}: not trained to its end yet; go on with --resume", path.display())));
    }
    let text = Text::read(&config.text, config.seed)?;
    let corpus = Corpus::read(&text, &Tokenizer::from_file(&path.join(MODEL).join(TOKENIZER))?)?;
    check_same(&folder, &corpus.summary)?;
    let epochs = Batches::new(&corpus.train, config.seed, config.training.batch, config.transformer.context).epochs(config.training.steps);
    let seconds = before.and_then(|before| before.seconds_per_step);
    let evaluation = evaluate(&config, &corpus, &path.join(MODEL), epochs, seconds)?;
    folder.write_json("evaluation.json", &serde_json::json!(evaluation))?;
    write_report(&folder, &config, &evaluation)?;
    Ok(evaluation)
}

/// The tokenizer in `json`, or one learned from the text, with its JSON.
fn tokenizer(config: &Config, text: &Text<'_>, json: Option<Value>, path: &Path) -> Result<(Tokenizer, Value), RunError> {
    let wanted = config.transformer.vocabulary;
    let json = match json {
        Some(json) => json,
        None => {
            let mut failure = None;
            let pieces = text.to_train_on()?.map_while(|piece| piece.map_err(|error| failure = Some(error)).ok());
            let learned = bpe::learn(wanted, pieces);
            if let Some(error) = failure {
                return Err(error.into());
            }
            let json = learned.map_err(|error| RunError::Data(format!("text: no tokenizer can be learned from it: {error}")))?;
            serde_json::from_str(&json).map_err(|error| RunError::Data(format!("the tokenizer's JSON: {error}")))?
        }
    };
    let tokenizer = Tokenizer::from_json(&json.to_string(), &path.join(TOKENIZER))?;
    let there = tokenizer.vocabulary();
    if there < wanted {
        return Err(RunError::Data(format!(
            "text: gives only {there} tokens, but `transformer.vocabulary` asks for {wanted}; lower it or give more text"
        )));
    }
    Ok((tokenizer, json))
}

fn check_amount(config: &Config, summary: &Summary) -> Result<(), RunError> {
    if summary.tokens < config.transformer.context {
        return Err(RunError::Data(format!(
            "text: {} tokens to train on, fewer than one row of `transformer.context` = {}; give more text",
            summary.tokens, config.transformer.context
        )));
    }
    if summary.held_out_tokens == 0 {
        let raise = if config.text.held_out_fraction.is_some() {
            "raise `text.held_out_fraction` or give `held_out_files`"
        } else {
            "give files with text"
        };
        return Err(RunError::Data(format!("text: nothing is held out for the evaluation; {raise}")));
    }
    Ok(())
}

/// Refuses text that is not what the run began with.
fn check_same(folder: &RunFolder, summary: &Summary) -> Result<(), RunError> {
    match folder.read_json::<Summary>(CORPUS)? {
        Some(before) if before != *summary => Err(RunError::Data(format!(
            "{}: the text has changed since the run began ({} tokens then, {} now); bring it back, or start anew with --overwrite",
            folder.path().display(),
            before.tokens,
            summary.tokens
        ))),
        _ => Ok(()),
    }
}

/// Takes the steps that are left, or as many as the observer lets it.
fn fit_to(
    mut fit: Fit<Transformer>,
    config: &Config,
    batches: &mut Batches<'_>,
    observer: &mut dyn Observer<Transformer>,
) -> Result<Fit<Transformer>, RunError> {
    let plan = &config.training;
    while fit.step < plan.steps {
        let step = fit.step;
        let loss = fit.model.loss(&batches.at(step))?;
        let value = f64::from(loss.clone().into_scalar::<f32>());
        if !value.is_finite() {
            return Err(TrainError::NotFinite { step, tensor: culprit(&fit.model) }.into());
        }
        let gradients = gradients_of(&fit.model, &loss.backward());
        let learning_rate = plan.learning_rate.at(step, plan.steps);
        fit = fit.advance(gradients, learning_rate);
        let losses = BTreeMap::from([(OBJECTIVE.to_string(), value)]);
        if observer.observe(&Event::Step { step, losses: &losses, learning_rate }, &fit) == Flow::Stop {
            break;
        }
    }
    Ok(fit)
}

/// The first parameter that is not finite, or the loss if all are.
fn culprit(model: &Transformer) -> String {
    let broken = parameters(model).into_iter().find(|(_, (tensor, _))| !tensor.clone().sum().into_scalar::<f32>().is_finite());
    broken.map_or_else(|| "loss".into(), |(name, _)| format!("parameter {name}"))
}

/// Writes `model/`.
fn write_model(model: &Transformer, tokenizer: &Value, config: &Config, folder: &RunFolder) -> Result<(), RunError> {
    save(model, &folder.path().join(MODEL), Precision::Bf16)?;
    folder.write_json(&format!("{MODEL}/{TOKENIZER}"), tokenizer)?;
    Ok(folder.write_json(&format!("{MODEL}/tokenizer_config.json"), &bpe::tokenizer_config(config.transformer.context))?)
}
