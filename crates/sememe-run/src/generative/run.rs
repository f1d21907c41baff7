//! A run from config to report: data, model, training with its observers, evaluation, and what is written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use burn::tensor::{Device, Tensor};
use sememe::generative::WithModel;
use sememe::train::{Fit, NamedTensors, Objective, Starts};

use super::config::Config;
use super::data::{Dataset, to_tensor};
use super::evaluate::{Evaluation, evaluate};
use super::page::write_run_report;
use crate::checkpoint;
use crate::error::RunError;
use crate::folder::{RunFolder, StartsRecord};
use crate::observe::{Progress, RunObserver};
use crate::start::{Outcome, RunOptions, label_of, open_run};

/// Trains and evaluates what `config` describes, in the folder `path`.
pub fn train(config: &Config, path: &Path, options: &RunOptions) -> Result<Outcome<Evaluation>, RunError> {
    let data = Dataset::load(config)?;
    let dx = data.train.ncols();
    config.check_penalties(dx)?;
    let folder = open_run(path, &config.to_toml()?, config.seed, options)?;
    let device = Device::flex().autodiff();
    let label = label_of(path);
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
    evaluation.write(&folder)?;
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
    type Output = Result<Outcome<Evaluation>, RunError>;

    fn call<M: Objective>(self, model: M) -> Self::Output {
        let Self { config, folder, data, options, device, label, seed } = self;
        let (plan, terms) = (&config.training, &config.penalty[..]);
        let saved =
            if options.resume { checkpoint::load(folder, model.clone(), &plan.adam, terms.len(), &device.clone().inner())? } else { None };
        let fit = saved.unwrap_or_else(|| Fit::new(model, plan, terms, seed));
        folder.cut_metrics_after(fit.step)?;
        let every = (config.output.log_every, config.output.checkpoint_every);
        let save = |fit: &Fit<M>| checkpoint::save(folder, fit, &NamedTensors::new());
        let mut observer =
            RunObserver::new(folder, &save, label, (fit.step, plan.steps), every, options.verbosity, options.interrupt.clone());
        let (started, from) = (Instant::now(), fit.step);
        let trained = fit.run(&to_tensor(&data.train, device), plan, terms, &mut observer);
        observer.finish();
        if let Some(failure) = observer.failure {
            return Err(failure);
        }
        let fit = trained?;
        save(&fit)?;
        if fit.step < plan.steps {
            return Ok(Outcome::Interrupted { step: fit.step });
        }
        let seconds_per_step = started.elapsed().as_secs_f64() / (fit.step - from).max(1) as f64;
        let evaluation = evaluate(config, data, &fit.model, device, Some(seconds_per_step))?;
        evaluation.write(folder)?;
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
