//! The project's own checks: `cargo xtask check` runs all of them, `cargo xtask tidy` only those that compile nothing.

mod tidy;

use std::process::{Command, ExitCode};

/// The steps of `check`, in order: each a cargo command line and whether warnings are errors in it.
const STEPS: [&[&str]; 4] = [
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
    &["test"],
    &["doc", "--workspace", "--no-deps", "--quiet"],
];

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let done = match task.as_str() {
        "tidy" => tidy::run(),
        "check" => tidy::run() && STEPS.iter().all(|step| cargo(step)),
        _ => {
            eprintln!("usage: cargo xtask check | tidy");
            false
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn cargo(arguments: &[&str]) -> bool {
    println!("cargo {}", arguments.join(" "));
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args(arguments);
    if arguments[0] == "doc" {
        command.env("RUSTDOCFLAGS", "-D warnings");
    }
    let passed = command.status().is_ok_and(|status| status.success());
    if !passed {
        eprintln!("failed: cargo {}", arguments.join(" "));
    }
    passed
}
