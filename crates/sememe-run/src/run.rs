//! A run from config to report: data, model, training with its observers, evaluation, and what is written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use burn::tensor::{Device, Tensor};
use sememe::generative::WithModel;
use sememe::train::{Fit, Objective, Starts};

use crate::checkpoint;
use crate::config::Config;
use crate::data::{Dataset, to_tensor};
use crate::error::RunError;
use crate::evaluate::{Evaluation, evaluate};
use crate::folder::{IfExists, Manifest, RunFolder, StartsRecord};
use crate::observe::{Interrupt, Progress, RunObserver, Verbosity};
use crate::report::write_run_report;

/// How a run is carried out; nothing here changes its numbers.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Continue from the last checkpoint in the folder.
    pub resume: bool,
    /// Replace a folder that holds another run.
    pub overwrite: bool,
    /// What is said meanwhile.
    pub verbosity: Verbosity,
    /// The command line, for the manifest.
    pub command: String,
    /// The recipe's name, for the manifest.
    pub recipe: Option<String>,
    /// Set by Ctrl-C.
    pub interrupt: Interrupt,
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// All steps were taken; the folder holds the evaluation.
    Finished(Box<Evaluation>),
    /// It was interrupted after this many steps and can be resumed.
    Interrupted {
        /// Steps taken.
        step: usize,
    },
}

/// Trains and evaluates what `config` describes, in the folder `path`.
pub fn train(config: &Config, path: &Path, options: &RunOptions) -> Result<Outcome, RunError> {
    let data = Dataset::load(config)?;
    let dx = data.train.ncols();
    config.check_penalties(dx)?;
    let resolved = config.to_toml()?;
    let folder = if options.resume {
        let folder = RunFolder::open(path)?;
        if folder.read_config()? != resolved {
            return Err(RunError::Data(format!(
                "{}: the folder's config.toml differs from the config asked for; resume with the same config, or start anew with --overwrite",
                path.display()
            )));
        }
        folder
    } else {
        let folder = RunFolder::create(path, if options.overwrite { IfExists::Replace } else { IfExists::Refuse })?;
        folder.write_config(&resolved)?;
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        folder.write_manifest(&Manifest::new(config.seed, created, &options.command, options.recipe.clone()))?;
        folder
    };
    let device = Device::flex().autodiff();
    let label = path.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned());
    let Some(seed) = seed_of_best_start(config, &folder, &data, options, &device, &label)? else {
        return Ok(Outcome::Interrupted { step: 0 });
    };
    config.model.init(
        dx,
        seed,
        &device,
        TrainModel { config, folder: &folder, data: &data, options, device: &device, label: &label, seed },
    )?
}

/// The trained model of a run folder, evaluated again.
pub fn evaluate_again(path: &Path) -> Result<Evaluation, RunError> {
    let folder = RunFolder::open(path)?;
    let config = Config::parse(&folder.read_config()?, &path.join("config.toml").display().to_string(), &[])?;
    let data = Dataset::load(&config)?;
    let device = Device::flex().autodiff();
    let again = EvaluateModel { config: &config, folder: &folder, data: &data, device: &device };
    let evaluation = config.model.init(data.train.ncols(), config.seed, &device, again)??;
    folder.write_evaluation(&evaluation)?;
    write_run_report(&folder, &config, &data, &evaluation)?;
    Ok(evaluation)
}

/// Tries the starts out, once; `None` when it was interrupted.
fn seed_of_best_start(
    config: &Config,
    folder: &RunFolder,
    data: &Dataset,
    options: &RunOptions,
    device: &Device,
    label: &str,
) -> Result<Option<u64>, RunError> {
    let Some(starts) = config.training.starts.as_ref().filter(|starts| starts.candidates > 1) else { return Ok(Some(config.seed)) };
    let of = |record: StartsRecord| record.seeds.get(record.chosen).copied();
    if let Some(seed) = folder.read_starts()?.and_then(of) {
        return Ok(Some(seed));
    }
    let each = starts.steps(config.training.steps);
    let mut progress = Progress::new(&format!("{label}, {} starts", starts.candidates), 0, starts.candidates * each, options.verbosity);
    let mut record = StartsRecord { seeds: Vec::new(), objectives: Vec::new(), chosen: 0 };
    let x = to_tensor(&data.train, device);
    for number in 0..starts.candidates {
        let seed = Starts::seed(config.seed, number);
        let mut stop = |step: usize| {
            if step.is_multiple_of(config.output.log_every) || step == each {
                progress.show(number * each + step, &BTreeMap::new());
            }
            options.interrupt.load(Ordering::Relaxed)
        };
        let trial = TryStart { starts, config, data: &x, seed, stop: &mut stop };
        let Some(objective) = config.model.init(data.train.ncols(), seed, device, trial)?? else { return Ok(None) };
        record.seeds.push(seed);
        record.objectives.push(objective);
        if objective < record.objectives[record.chosen] {
            record.chosen = number;
        }
    }
    progress.finish();
    folder.write_starts(&record)?;
    Ok(of(record))
}

struct TryStart<'a> {
    starts: &'a Starts,
    config: &'a Config,
    data: &'a Tensor<2>,
    seed: u64,
    stop: &'a mut dyn FnMut(usize) -> bool,
}

impl WithModel for TryStart<'_> {
    type Output = Result<Option<f64>, RunError>;

    fn call<M: Objective>(self, model: M) -> Self::Output {
        let (plan, terms) = (&self.config.training, &self.config.penalty[..]);
        Ok(self.starts.try_out(model, self.data, plan, terms, self.seed, self.stop)?)
    }
}

struct TrainModel<'a> {
    config: &'a Config,
    folder: &'a RunFolder,
    data: &'a Dataset,
    options: &'a RunOptions,
    device: &'a Device,
    label: &'a str,
    seed: u64,
}

impl WithModel for TrainModel<'_> {
    type Output = Result<Outcome, RunError>;

    fn call<M: Objective>(self, model: M) -> Self::Output {
        let Self { config, folder, data, options, device, label, seed } = self;
        let (plan, terms) = (&config.training, &config.penalty[..]);
        let saved =
            if options.resume { checkpoint::load(folder, model.clone(), &plan.adam, terms.len(), &device.clone().inner())? } else { None };
        let fit = saved.unwrap_or_else(|| Fit::new(model, plan, terms, seed));
        folder.cut_metrics_after(fit.step)?;
        let every = (config.output.log_every, config.output.checkpoint_every);
        let mut observer = RunObserver::new(folder, label, (fit.step, plan.steps), every, options.verbosity, options.interrupt.clone());
        let (started, from) = (Instant::now(), fit.step);
        let trained = fit.run(&to_tensor(&data.train, device), plan, terms, &mut observer);
        observer.finish();
        if let Some(failure) = observer.failure {
            return Err(failure);
        }
        let fit = trained?;
        checkpoint::save(folder, &fit)?;
        if fit.step < plan.steps {
            return Ok(Outcome::Interrupted { step: fit.step });
        }
        let seconds_per_step = started.elapsed().as_secs_f64() / (fit.step - from).max(1) as f64;
        let evaluation = evaluate(config, data, &fit.model, device, Some(seconds_per_step))?;
        folder.write_evaluation(&evaluation)?;
        write_run_report(folder, config, data, &evaluation)?;
        folder.mark_finished()?;
        Ok(Outcome::Finished(Box::new(evaluation)))
    }
}

struct EvaluateModel<'a> {
    config: &'a Config,
    folder: &'a RunFolder,
    data: &'a Dataset,
    device: &'a Device,
}

impl WithModel for EvaluateModel<'_> {
    type Output = Result<Evaluation, RunError>;

    fn call<M: Objective>(self, model: M) -> Self::Output {
        let Self { config, folder, data, device } = self;
        let saved = checkpoint::load(folder, model, &config.training.adam, config.penalty.len(), &device.clone().inner())?;
        match saved {
            Some(fit) => evaluate(config, data, &fit.model, device, None),
            None => Err(RunError::Data(format!("{}: no checkpoint yet; train the run first", folder.path().display()))),
        }
    }
}
