//! Who watches the loop: the metrics file, the checkpoints, the terminal, and Ctrl-C.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use sememe::train::{Event, Fit, Flow, Observer};
use serde_json::json;

use crate::error::RunError;
use crate::folder::RunFolder;

/// How much is said while a run goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// A bar on a terminal, plain lines elsewhere.
    #[default]
    Progress,
    /// Nothing.
    Quiet,
    /// One JSON object a line on standard output.
    Json,
}

/// Set by Ctrl-C; the loop stops after the step at hand.
pub type Interrupt = Arc<AtomicBool>;

/// Saves a checkpoint into the run's folder.
pub type Save<'a, M> = &'a dyn Fn(&Fit<M>) -> Result<(), RunError>;

/// Writes metrics and checkpoints of one run and shows its progress.
pub struct RunObserver<'a, M> {
    folder: &'a RunFolder,
    save: Save<'a, M>,
    log_every: usize,
    checkpoint_every: usize,
    steps: usize,
    interrupt: Interrupt,
    progress: Progress,
    /// Sums since the last line, so that a line holds means and not single batches.
    sums: BTreeMap<String, (f64, usize)>,
    /// The first failure to write, which ends the run.
    pub failure: Option<RunError>,
}

impl<'a, M> RunObserver<'a, M> {
    /// An observer of a run of `steps` steps that stands at `step`.
    pub fn new(
        folder: &'a RunFolder,
        save: Save<'a, M>,
        label: &str,
        (step, steps): (usize, usize),
        (log_every, checkpoint_every): (usize, usize),
        verbosity: Verbosity,
        interrupt: Interrupt,
    ) -> Self {
        let progress = Progress::new(label, step, steps, verbosity);
        Self { folder, save, log_every, checkpoint_every, steps, interrupt, progress, sums: BTreeMap::new(), failure: None }
    }

    /// Ends the bar.
    pub fn finish(&self) {
        self.progress.finish();
    }

    fn write(&mut self, event: &Event<'_>, fit: &Fit<M>) -> Result<(), RunError> {
        match event {
            Event::Guard { step, penalty, factor } => {
                self.folder.append_metrics(&json!({"step": step, "guard": penalty, "factor": factor}))?
            }
            Event::Step { step, losses, learning_rate } => {
                for (name, value) in *losses {
                    let sum = self.sums.entry(name.clone()).or_insert((0.0, 0));
                    *sum = (sum.0 + value, sum.1 + 1);
                }
                let done = step + 1;
                if done % self.log_every == 0 || done == self.steps {
                    let means: BTreeMap<String, f64> =
                        std::mem::take(&mut self.sums).into_iter().map(|(name, (sum, count))| (name, sum / count as f64)).collect();
                    self.folder.append_metrics(&json!({"step": done, "losses": means, "learning_rate": learning_rate}))?;
                    self.progress.show(done, &means);
                }
                if done % self.checkpoint_every == 0 && done != self.steps {
                    (self.save)(fit)?;
                }
            }
        }
        Ok(())
    }
}

impl<M> Observer<M> for RunObserver<'_, M> {
    fn observe(&mut self, event: &Event<'_>, fit: &Fit<M>) -> Flow {
        if let Err(error) = self.write(event, fit) {
            self.failure = Some(error);
            return Flow::Stop;
        }
        if self.interrupt.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
    }
}

/// A bar, plain lines, JSON lines, or silence.
pub(crate) enum Progress {
    Bar(ProgressBar),
    Lines { label: String, unit: &'static str, first: usize, steps: usize, started: Instant, last: Option<Instant> },
    Json { label: String, unit: &'static str, steps: usize },
    Quiet,
}

/// The least time between two plain lines.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

impl Progress {
    /// Progress of a job of `steps` steps that stands at `step`.
    pub(crate) fn new(label: &str, step: usize, steps: usize, verbosity: Verbosity) -> Self {
        Self::of(label, "steps", step, steps, verbosity)
    }

    /// Progress of a job that is counted in `unit`.
    pub(crate) fn of(label: &str, unit: &'static str, step: usize, steps: usize, verbosity: Verbosity) -> Self {
        match verbosity {
            Verbosity::Quiet => Self::Quiet,
            Verbosity::Json => Self::Json { label: label.into(), unit, steps },
            Verbosity::Progress if std::io::stderr().is_terminal() => {
                let template = format!("{{prefix:>24}} {{bar:24}} {{human_pos}}/{{human_len}} {unit}  {{per_sec}}  {{eta}} left  {{msg}}");
                let style = ProgressStyle::with_template(&template);
                let bar = ProgressBar::new(steps as u64).with_prefix(label.to_string()).with_position(step as u64);
                Self::Bar(if let Ok(style) = style { bar.with_style(style) } else { bar })
            }
            Verbosity::Progress => Self::Lines { label: label.into(), unit, first: step, steps, started: Instant::now(), last: None },
        }
    }

    /// Tells that `done` steps are done, and the losses.
    pub(crate) fn show(&mut self, done: usize, losses: &BTreeMap<String, f64>) {
        let text = losses.iter().map(|(name, value)| format!("{name} {value:.4}")).collect::<Vec<_>>().join("  ");
        match self {
            Self::Bar(bar) => {
                bar.set_position(done as u64);
                bar.set_message(text);
            }
            Self::Lines { label, unit, first, steps, started, last } => {
                if last.is_none_or(|last| last.elapsed() >= BETWEEN_LINES) || done == *steps {
                    let rate = (done - *first) as f64 / started.elapsed().as_secs_f64().max(1e-9);
                    let left = (*steps - done) as f64 / rate.max(1e-9);
                    eprintln!("{label}: {done}/{steps} {unit}, {rate:.0}/s, {left:.0} s left, {text}");
                    *last = Some(Instant::now());
                }
            }
            Self::Json { label, unit: "steps", steps } => {
                println!("{}", json!({"run": label, "step": done, "steps": steps, "losses": losses}))
            }
            Self::Json { label, unit, steps } => println!("{}", json!({"job": label, "unit": unit, "done": done, "of": steps})),
            Self::Quiet => {}
        }
    }

    /// Ends the bar.
    pub(crate) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish();
        }
    }
}
