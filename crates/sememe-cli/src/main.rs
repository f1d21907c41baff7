//! The command `sememe`: one file a command under `command/`.

mod command;
mod pocket;
mod recipe;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;

use command::{Command, Context};

/// A training step asks for the same large blocks again and again.
#[global_allocator]
static MEMORY: sememe_kernels::Retaining = sememe_kernels::Retaining::new();

/// Nonlinear dictionary learning: learn the hidden factors behind data, and how much of them was identified.
#[derive(Parser)]
#[command(name = "sememe", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Say nothing but errors and results.
    #[arg(long, global = true, conflicts_with = "json")]
    quiet: bool,
    /// Progress and results as one JSON object a line.
    #[arg(long, global = true)]
    json: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let interrupt = Arc::new(AtomicBool::new(false));
    let seen = interrupt.clone();
    let handler = ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        eprintln!("stopping after this step; the run is saved (press again to stop at once)");
    });
    let context = Context::new(cli.quiet, cli.json, interrupt);
    match handler.map_err(anyhow::Error::from).and_then(|()| cli.command.run(&context)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sememe: {error:#}");
            ExitCode::from(2)
        }
    }
}
