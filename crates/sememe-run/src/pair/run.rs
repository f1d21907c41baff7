//! A pair's run from config to report.

use std::path::Path;
use std::time::Instant;

use burn::tensor::Device;
use sememe::dictionary::Dictionary;
use sememe::pair::{Layer, Pair, PairFit, resume, start, train as train_pair};
use sememe_lm::{Hook, Tokenizer, Transformer};

use super::config::{Config, Side};
use super::evaluate::{Evaluation, evaluate_pair};
use super::layer::{layer_between, model_of};
use super::open::{Opened, Ready, open_run_of, ready};
use super::page::write_page;
use crate::activations::{Activations, Hooks};
use crate::checkpoint;
use crate::dictionary::{Judge, Live, Source, Training, held_out};
use crate::error::RunError;
use crate::interop::native::{Saved, save};
use crate::observe::RunObserver;
use crate::start::{Outcome, RunOptions, label_of, open_run};

/// Trains and evaluates what `config` describes, in the folder `path`.
///
/// # Errors
/// Activations, settings or a folder that are refused; numbers that are not finite.
pub fn train(config: &Config, path: &Path, options: &RunOptions) -> Result<Outcome<Evaluation>, RunError> {
    let before = config.data.activations.as_deref().map(Activations::open).transpose()?;
    // What can be refused is refused before anything is written.
    let mut checked = before.as_ref().map(|source| Around::new(config, source)).transpose()?;
    let folder = open_run(path, &config.to_toml()?, config.seed, options)?;
    let source = match before {
        Some(source) => source,
        None => match held_out(config.data.live.as_ref(), path, options)? {
            Some(source) => source,
            None => return Ok(Outcome::Interrupted { step: 0 }),
        },
    };
    let around = match checked.take() {
        Some(around) => around,
        None => Around::new(config, &source)?,
    };
    let Around { ready: Ready { hooks, between, widths }, model, tokenizer, layer } = around;
    let scales = (hooks.input[0].1, hooks.target[0].1);
    let device = Device::flex().autodiff();
    let plain = device.clone().inner();
    let pair = Pair::new(&config.pair, widths.0, widths.1, config.seed, &device)?;
    let plan = &config.training;
    let saved = if options.resume { checkpoint::load_with_memory(&folder, pair.clone(), &plan.adam, 1, &plain)? } else { None };
    let fit = match saved {
        Some(saved) => resume(saved.model, saved.memory, saved.adam, saved.step, saved.guards, saved.seed).map_err(RunError::Data)?,
        None => start(pair, plan, config.seed),
    };
    folder.cut_metrics_after(fit.step)?;
    let live = Live { config: config.data.live.as_ref(), folder: path };
    let mut batches = Source::new(&live, &source, &hooks, (plan.batch_tokens, config.seed, fit.step), &plain)?;
    let checkpoint = |fit: &PairFit| checkpoint::save(&folder, fit, &fit.model.memory(&plain));
    let every = (config.output.log_every, config.output.checkpoint_every);
    let label = label_of(path);
    let mut observer =
        RunObserver::new(&folder, &checkpoint, &label, (fit.step, plan.steps), every, options.verbosity, options.interrupt.clone());
    let (started, from) = (Instant::now(), fit.step);
    let trained = train_pair(fit, &layer, &config.pair.jacobian, &mut batches, plan, &mut observer);
    observer.finish();
    if let Some(failure) = observer.failure {
        return Err(failure);
    }
    let fit = trained?;
    checkpoint(&fit)?;
    if fit.step < plan.steps {
        batches.save(&live)?;
        return Ok(Outcome::Interrupted { step: fit.step });
    }
    let new_tokens = (fit.step - from) * plan.batch_tokens;
    let tokens_per_second = (new_tokens > 0).then(|| new_tokens as f64 / started.elapsed().as_secs_f64());
    let dead = |side: &Dictionary| {
        let dead_after_tokens = side.kind.member().dead_after_tokens();
        let dead = side.memory.dead(dead_after_tokens).len();
        Training { tokens_per_second, dead, dead_after_tokens, tokens: fit.step * plan.batch_tokens }
    };
    let training = [dead(&fit.model.input), dead(&fit.model.output)];
    let trained = fit.model.evaluated();
    let folded = Pair { input: trained.input.fold_scale(scales.0, scales.0), output: trained.output.fold_scale(scales.1, scales.1) };
    for (side, dictionary, hook) in [(Side::Input, &folded.input, between[0]), (Side::Output, &folded.output, between[1])] {
        let part = path.join(side.name());
        std::fs::create_dir_all(&part).map_err(|source| crate::folder::FolderError::Io { path: part.clone(), source })?;
        save(&part, dictionary, about(&source, dictionary, hook))?;
    }
    let opened = Opened::new(folded, config, source, model, tokenizer)?;
    let mut evaluation = opened.evaluate(config)?;
    (evaluation.input.training, evaluation.output.training) = (Some(training[0]), Some(training[1]));
    evaluation.write(&folder)?;
    write_page(&folder, config, &opened.source, &evaluation)?;
    folder.mark_finished()?;
    Ok(Outcome::Finished(Box::new(evaluation)))
}

/// The language model around a pair, and the layer within it.
struct Around {
    ready: Ready,
    model: Transformer,
    tokenizer: Tokenizer,
    layer: Layer,
}

impl Around {
    fn new(config: &Config, source: &Activations) -> Result<Self, RunError> {
        let ready = ready(config, source)?;
        let (model, tokenizer) = model_of(config.evaluation.model.as_deref(), source)?;
        let scales = (ready.hooks.input[0].1, ready.hooks.target[0].1);
        let layer = layer_between(&model, ready.between[0], ready.between[1], scales)?;
        Ok(Self { ready, model, tokenizer, layer })
    }
}

fn about(source: &Activations, dictionary: &Dictionary, hook: Hook) -> Saved {
    let width = dictionary.widths().input;
    Saved {
        dictionary: dictionary.kind.clone(),
        widths: (width, width),
        threshold: None,
        model: source.manifest.model.clone(),
        fingerprint: source.manifest.fingerprint.clone(),
        hooks: vec![hook.to_string()],
        target: None,
    }
}

impl Opened {
    fn evaluate(&self, config: &Config) -> Result<Evaluation, RunError> {
        let judge = |own: &[(usize, f64)]| {
            let hooks = Hooks { input: own.to_vec(), target: Vec::new() };
            Judge::of(self.model.clone(), self.tokenizer.clone(), config.evaluation.contexts, &self.source, &hooks)
        };
        let judges = [judge(&self.hooks.input)?, judge(&self.hooks.target)?];
        evaluate_pair(config, &self.source, &self.hooks, (&self.pair, &self.layer), judges.each_ref())
    }
}

/// The trained pair of a run folder, evaluated again, with another place of its language model if one is given.
///
/// # Errors
/// A run that is not finished, or activations that are gone.
pub fn evaluate_again(path: &Path, model: Option<&str>) -> Result<Evaluation, RunError> {
    let (folder, config, opened) = open_run_of(path, model)?;
    let before: Option<Evaluation> = Evaluation::read(&folder)?;
    let mut evaluation = opened.evaluate(&config)?;
    if let Some(before) = before {
        (evaluation.input.training, evaluation.output.training) = (before.input.training, before.output.training);
    }
    evaluation.write(&folder)?;
    write_page(&folder, &config, &opened.source, &evaluation)?;
    Ok(evaluation)
}
