//! The commands, and what they share: how much is said, and Ctrl-C.

mod bench;
mod compare;
mod convert;
mod eval;
mod graph;
mod harvest;
mod list;
mod quickstart;
mod report;
mod reproduce;
mod structure;
mod train;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use clap::Subcommand;
use sememe_run::observe::{Interrupt, Verbosity};
use sememe_run::start::RunOptions;

/// What `sememe` can do.
#[derive(Subcommand)]
pub enum Command {
    /// Make data with known factors, train three models on it, and show what each identified (3 minutes).
    Quickstart(quickstart::Quickstart),
    /// Keep a language model's activations on text as shards to train on.
    Harvest(harvest::Harvest),
    /// Train what a recipe or a config file describes, or a dictionary by its name.
    Train(train::Train),
    /// Train several dictionaries on the same activations and put them in one table.
    Compare(compare::Compare),
    /// Evaluate a run again: scores beside their nulls.
    Eval(eval::Eval),
    /// Which latents act on which through a layer: the graph of a pair's Jacobian.
    Graph(graph::GraphCommand),
    /// Which latents a dependency structure lets one identify, and why.
    Structure(structure::StructureCommand),
    /// Write a run's report again.
    Report(report::Report),
    /// Repeat a published result and print our figures beside it.
    Reproduce(reproduce::Reproduce),
    /// What there is: models, penalties, metrics, worlds, recipes.
    List(list::List),
    /// Write a dictionary in the format of another tool.
    Convert(convert::Convert),
    /// Time what this machine does, as ratios, other tools included.
    Bench(bench::Bench),
}

impl Command {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        match self {
            Self::Quickstart(command) => command.run(context),
            Self::Harvest(command) => command.run(context),
            Self::Train(command) => command.run(context),
            Self::Compare(command) => command.run(context),
            Self::Eval(command) => command.run(context),
            Self::Graph(command) => command.run(context),
            Self::Structure(command) => command.run(context),
            Self::Report(command) => command.run(context),
            Self::Reproduce(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Convert(command) => command.run(context),
            Self::Bench(command) => command.run(context),
        }
    }
}

/// How much is said, and whether to stop.
pub struct Context {
    /// How much.
    pub verbosity: Verbosity,
    /// Set by Ctrl-C.
    pub interrupt: Interrupt,
}

/// The exit code of a run that was interrupted and saved.
pub const INTERRUPTED: u8 = 130;

impl Context {
    /// From the flags.
    pub fn new(quiet: bool, json: bool, interrupt: Interrupt) -> Self {
        let verbosity = match (quiet, json) {
            (_, true) => Verbosity::Json,
            (true, _) => Verbosity::Quiet,
            _ => Verbosity::Progress,
        };
        Self { verbosity, interrupt }
    }

    /// Options of a run started by this command line.
    pub fn run_options(&self, resume: bool, overwrite: bool, recipe: Option<String>) -> RunOptions {
        let command =
            std::env::args().map(|arg| if arg.contains(' ') { format!("'{arg}'") } else { arg }).skip(1).collect::<Vec<_>>().join(" ");
        RunOptions {
            resume,
            overwrite,
            verbosity: self.verbosity,
            command: format!("sememe {command}"),
            recipe,
            interrupt: self.interrupt.clone(),
        }
    }

    /// Prints a result as text or as JSON; a reader that has gone away is no error.
    pub fn result(&self, text: &str, json: &serde_json::Value) {
        let line = if self.verbosity == Verbosity::Json { json.to_string() } else { text.trim_end().to_string() };
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

/// `f` of every item, `threads` at a time, each call with a thread pool of one thread of its own:
/// small models do not gain from more, and the bits of a run do not depend on what runs beside it.
///
/// Plain threads take the items, since a worker of a pool that waits for another pool would begin further items meanwhile.
pub fn one_thread_each<T: Sync, R: Send>(items: &[T], threads: usize, f: impl Fn(&T) -> Result<R> + Sync) -> Vec<Result<R>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<R>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = rayon::ThreadPoolBuilder::new()
                        .num_threads(1)
                        .build()
                        .map_err(anyhow::Error::from)
                        .and_then(|pool| pool.install(|| f(item)));
                    if let Ok(mut slot) = results[index].lock() {
                        *slot = Some(result);
                    }
                }
            });
        }
    });
    results.into_iter().map(|slot| slot.into_inner().ok().flatten().unwrap_or_else(|| Err(anyhow::anyhow!("a run panicked")))).collect()
}

/// The number of cores.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A link that terminals make clickable.
pub fn file_link(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.into()).display().to_string()
}

#[cfg(test)]
pub use reproduce::check as check_reproduction;
