//! A run that is killed or interrupted leaves a whole checkpoint, and resumed it ends at the same bits as one that was left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const SETTINGS: [&str; 12] = [
    "--set",
    "data.samples=600",
    "--set",
    "data.test_samples=200",
    "--set",
    "training.steps=240",
    "--set",
    "training.batch=64",
    "--set",
    "output.checkpoint_every=5",
    "--set",
    "evaluation.metrics=[{name=\"mcc-pearson\"}]",
];

fn start(folder: &Path, extra: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sememe"));
    command.args(["train", "synthetic-diverse", "--quiet", "--out"]).arg(folder).args(SETTINGS).args(extra);
    match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => panic!("cannot start sememe: {error}"),
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    child.wait().unwrap_or_else(|error| panic!("{error}"))
}

/// The name of the current checkpoint's folder, once there is one.
fn current(folder: &Path) -> Option<PathBuf> {
    let pointer: serde_json::Value = serde_json::from_str(&fs::read_to_string(folder.join("checkpoint.json")).ok()?).ok()?;
    Some(folder.join(pointer["folder"].as_str()?))
}

fn weights(folder: &Path) -> Vec<u8> {
    let Some(checkpoint) = current(folder) else { panic!("{}: no checkpoint", folder.display()) };
    fs::read(checkpoint.join("model.safetensors")).unwrap_or_else(|error| panic!("{error}"))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(120), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

#[test]
fn killed_and_interrupted_runs_resume_to_the_same_bits() {
    let whole = scratch("resume-whole");
    assert!(wait(&mut start(&whole, &[])).success());

    let killed = scratch("resume-killed");
    for round in 0..6 {
        let before = current(&killed);
        let mut child = start(&killed, if round == 0 { &[] } else { &["--resume"] });
        until("a checkpoint", || {
            current(&killed).is_some() && current(&killed) != before || child.try_wait().is_ok_and(|status| status.is_some())
        });
        // Somewhere within the writing of the next ones.
        std::thread::sleep(Duration::from_millis(7 * round));
        child.kill().unwrap_or_else(|error| panic!("{error}"));
        wait(&mut child);
        let Some(checkpoint) = current(&killed) else { panic!("round {round}: the pointer names no checkpoint") };
        for file in ["model.safetensors", "optimiser.safetensors"] {
            let bytes = fs::read(checkpoint.join(file)).unwrap_or_else(|error| panic!("round {round}: {error}"));
            assert!(safetensors::SafeTensors::deserialize(&bytes).is_ok(), "round {round}: {file} is not whole");
        }
    }
    assert!(wait(&mut start(&killed, &["--resume"])).success());
    assert!(weights(&whole) == weights(&killed), "a killed run ends at other bits");

    #[cfg(unix)]
    {
        let stopped = scratch("resume-stopped");
        let mut child = start(&stopped, &[]);
        until("a checkpoint", || current(&stopped).is_some());
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        assert_eq!(wait(&mut child).code(), Some(130), "Ctrl-C saves and says so");
        assert!(wait(&mut start(&stopped, &["--resume"])).success());
        assert!(weights(&whole) == weights(&stopped), "an interrupted run ends at other bits");
        let codes = |folder: &Path| fs::read(folder.join("arrays/codes.npy")).unwrap_or_else(|error| panic!("{error}"));
        assert!(codes(&whole) == codes(&stopped));
    }
}
