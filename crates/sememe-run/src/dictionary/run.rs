//! A dictionary's run from config to report: activations, training with its observers, folding, evaluation, and what is written.

use std::path::Path;
use std::time::Instant;

use burn::tensor::Device;
use sememe::dictionary::{Dictionary, DictionaryKind, Widths, resume, start, train as train_dictionary};
use sememe::train::Fit;

use super::config::{Config, DataConfig};
use super::evaluate::{Evaluation, Training, evaluate};
use super::language::Judge;
use super::page::write_page;
use super::source::{Live, Source, held_out};
use crate::activations::{Activations, ActivationsError, Hooks};
use crate::checkpoint;
use crate::config::parse;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::interop::native::{Saved, open, save};
use crate::observe::RunObserver;
use crate::start::{Outcome, RunOptions, label_of, open_run};

/// Trains and evaluates what `config` describes, in the folder `path`.
///
/// `judge` is the language model, if it is loaded already.
///
/// # Errors
/// Activations, settings or a folder that are refused; numbers that are not finite.
pub fn train(config: &Config, path: &Path, options: &RunOptions, judge: Option<&Judge>) -> Result<Outcome<Evaluation>, RunError> {
    let before = match &config.data.activations {
        Some(folder) => Some(checked(config, Activations::open(folder)?)?),
        None => None,
    };
    let folder = open_run(path, &config.to_toml()?, config.seed, options)?;
    let (source, hooks) = match before {
        Some(found) => found,
        None => match held_out(config.data.live.as_ref(), path, options)? {
            Some(source) => checked(config, source)?,
            None => return Ok(Outcome::Interrupted { step: 0 }),
        },
    };
    let device = Device::flex().autodiff();
    let dictionary = Dictionary::new(config.dictionary.clone(), widths(&source, &hooks), config.seed, &device)?;
    let plan = &config.training;
    let saved = if options.resume {
        checkpoint::load_with_memory(&folder, dictionary.clone(), &plan.adam, 0, &device.clone().inner())?
    } else {
        None
    };
    let fit = match saved {
        Some(saved) => resume(saved.model, saved.memory, saved.adam, saved.step, saved.seed).map_err(RunError::Data)?,
        None => start(dictionary, plan, config.seed),
    };
    folder.cut_metrics_after(fit.step)?;
    let live = Live { config: config.data.live.as_ref(), folder: path };
    let mut batches = Source::new(&live, &source, &hooks, (plan.batch_tokens, config.seed, fit.step), &device.clone().inner())?;
    let checkpoint = |fit: &Fit<Dictionary>| checkpoint::save(&folder, fit, &fit.model.memory.state(&device.clone().inner()));
    let every = (config.output.log_every, config.output.checkpoint_every);
    let label = label_of(path);
    let mut observer =
        RunObserver::new(&folder, &checkpoint, &label, (fit.step, plan.steps), every, options.verbosity, options.interrupt.clone());
    let (started, from) = (Instant::now(), fit.step);
    let trained = train_dictionary(fit, &mut batches, plan, &mut observer);
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
    let folded = fold(fit.model.evaluated(), &source, &hooks);
    save(path, &folded, about(&source, &hooks, &config.dictionary, &folded))?;
    let evaluation = evaluate(config, &source, &hooks, &folded, judge)?;
    let dead_after_tokens = config.dictionary.member().dead_after_tokens();
    let dead = fit.model.memory.dead(dead_after_tokens).len();
    let training = Training { tokens_per_second, dead, dead_after_tokens, tokens: fit.step * plan.batch_tokens };
    let evaluation = Evaluation { training: Some(training), ..evaluation };
    evaluation.write(&folder)?;
    write_page(&folder, config, &source, &evaluation)?;
    folder.mark_finished()?;
    Ok(Outcome::Finished(Box::new(evaluation)))
}

/// The trained dictionary of a run folder, evaluated again, with another language model if one is given.
///
/// # Errors
/// A run that is not finished, or activations that are gone.
pub fn evaluate_again(path: &Path, model: Option<&str>) -> Result<Evaluation, RunError> {
    let folder = RunFolder::open(path)?;
    let mut config: Config = parse(&folder.read_config()?, &path.join("config.toml").display().to_string(), &[])?;
    if let Some(model) = model {
        config.evaluation.model = Some(model.into());
    }
    let source = match &config.data.activations {
        Some(folder) => Activations::open(folder)?,
        None => Activations::open(&Live::folder_of(path))?,
    };
    let (source, hooks) = checked(&config, source)?;
    let (dictionary, saved) = open(path, &Device::flex())?;
    if saved.fingerprint != source.manifest.fingerprint {
        let message = "these activations are of another model than those that the dictionary was trained on".into();
        return Err(ActivationsError::Mismatch { path: source.path, message }.into());
    }
    let before: Option<Evaluation> = Evaluation::read(&folder)?;
    let evaluation = evaluate(&config, &source, &hooks, &dictionary, None)?;
    let evaluation = Evaluation { training: before.and_then(|before| before.training), ..evaluation };
    evaluation.write(&folder)?;
    write_page(&folder, &config, &source, &evaluation)?;
    Ok(evaluation)
}

/// The activations with the hooks that the config chooses, if they suit the dictionary.
pub(crate) fn checked(config: &Config, source: Activations) -> Result<(Activations, Hooks), RunError> {
    let DataConfig { hooks, target, scaled, .. } = &config.data;
    let scale = |hook: usize| if scaled.unwrap_or(true) { source.scale(hook) } else { 1.0 };
    let known: Vec<&str> = source.manifest.hooks.iter().map(|info| info.hook.as_str()).collect();
    let of_kind =
        |names: &[String]| names.iter().map(|name| source.hook(name).map(|hook| (hook, scale(hook)))).collect::<Result<Vec<_>, _>>();
    let refuse = |message: String| Err(RunError::Data(format!("{}: {message}", source.path.display())));
    let input = match (&config.dictionary, &hooks[..]) {
        (_, names @ [_, ..]) => of_kind(names)?,
        (DictionaryKind::Crosscoder(_), []) => (0..known.len()).map(|hook| (hook, scale(hook))).collect(),
        (_, []) if known.len() == 1 => vec![(0, scale(0))],
        (_, []) => {
            return refuse(format!(
                "several hooks ({}); say which with data.hooks, such as --set data.hooks='[\"{}\"]'",
                known.join(", "),
                known[0]
            ));
        }
    };
    let target = match target {
        Some(name) => of_kind(std::slice::from_ref(name))?,
        None => Vec::new(),
    };
    match &config.dictionary {
        DictionaryKind::Transcoder(_) if target.is_empty() => {
            return refuse("a transcoder needs data.target, the hook that it reconstructs".into());
        }
        DictionaryKind::Transcoder(_) => {}
        _ if !target.is_empty() => return refuse(format!("data.target goes with a transcoder, not with `{}`", config.dictionary.tag())),
        DictionaryKind::Crosscoder(crosscoder) if crosscoder.layers != input.len() => {
            return refuse(format!(
                "{} hooks for a crosscoder of {} layers; make dictionary.layers and data.hooks agree",
                input.len(),
                crosscoder.layers
            ));
        }
        DictionaryKind::Crosscoder(_) => {}
        _ if input.len() > 1 => return refuse(format!("several hooks go with a crosscoder, not with `{}`", config.dictionary.tag())),
        _ => {}
    }
    let hooks = Hooks { input, target };
    config.dictionary.member().check(widths(&source, &hooks))?;
    Ok((source, hooks))
}

fn widths(source: &Activations, hooks: &Hooks) -> Widths {
    let of = |hooks: &[(usize, f64)]| hooks.iter().map(|(hook, _)| source.manifest.hooks[*hook].width).sum();
    let input = of(&hooks.input);
    Widths { input, output: if hooks.target.is_empty() { input } else { of(&hooks.target) } }
}

/// The dictionary for activations as the model has them.
fn fold(dictionary: Dictionary, source: &Activations, hooks: &Hooks) -> Dictionary {
    if dictionary.kind.member().form().centred {
        let scale = hooks.input[0].1;
        return dictionary.fold_scale(scale, scale);
    }
    let columns = |hooks: &[(usize, f64)]| -> Vec<f64> {
        hooks.iter().flat_map(|&(hook, scale)| std::iter::repeat_n(scale, source.manifest.hooks[hook].width)).collect()
    };
    let output = if hooks.target.is_empty() { &hooks.input } else { &hooks.target };
    dictionary.fold_columns(&columns(&hooks.input), &columns(output))
}

fn about(source: &Activations, hooks: &Hooks, kind: &DictionaryKind, dictionary: &Dictionary) -> Saved {
    let name = |&(hook, _): &(usize, f64)| source.manifest.hooks[hook].hook.clone();
    let Widths { input, output } = dictionary.widths();
    Saved {
        dictionary: kind.clone(),
        widths: (input, output),
        threshold: None,
        model: source.manifest.model.clone(),
        fingerprint: source.manifest.fingerprint.clone(),
        hooks: hooks.input.iter().map(name).collect(),
        target: hooks.target.first().map(name),
    }
}
