//! From a model on disk to an evaluated dictionary, as a user types it; and what is refused on the way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn sememe(folder: &Path, args: &[&str]) -> Output {
    match Command::new(env!("CARGO_BIN_EXE_sememe")).current_dir(folder).args(args).output() {
        Ok(output) => output,
        Err(error) => panic!("cannot start sememe: {error}"),
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dictionary-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    folder
}

fn pocket() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket").display().to_string()
}

fn succeeds(folder: &Path, args: &[&str]) {
    let output = sememe(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn fine(folder: &Path, args: &[&str]) -> serde_json::Value {
    let output = sememe(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{args:?}: {error}: {last}"))
}

fn refused(folder: &Path, args: &[&str], expected: &str) {
    let output = sememe(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{args:?} succeeded");
    assert!(said.contains(expected), "{args:?} said: {said}\nexpected: {expected}");
    assert!(!said.contains("panicked"), "{args:?} panicked: {said}");
    assert_eq!(said.trim().lines().count(), 1, "{args:?} said more than one line: {said}");
}

/// A text with markup in it, which must not become markup of the report.
fn text(folder: &Path) {
    let lines: String =
        (0..60).map(|k| format!("Section {k}. The people of the United States <script>alert({k})</script> and the whale.\n")).collect();
    fs::write(folder.join("a.txt"), lines.repeat(4)).unwrap_or_else(|error| panic!("{error}"));
}

fn harvested(folder: &Path, hooks: &[&str]) {
    text(folder);
    let model = pocket();
    let mut args = vec!["harvest", model.as_str(), "--layer", "1", "--text", "a.txt", "-o", "acts", "--test-fraction", "0.3", "--json"];
    hooks.iter().for_each(|hook| args.extend(["--hook", hook]));
    let said = fine(folder, &[&args[..], &["--context-tokens", "64", "--precision", "f32"]].concat());
    assert!(said["train_tokens"].as_u64() > Some(3000), "{said}");
}

const SHORT: [&str; 12] = [
    "--set",
    "n=128",
    "--set",
    "training.steps=60",
    "--set",
    "training.batch_tokens=128",
    "--set",
    "training.warm_up_steps=5",
    "--set",
    "output.checkpoint_every=5",
    "--set",
    "evaluation.contexts=2",
];

#[test]
fn from_a_model_to_a_report() {
    let folder = scratch("whole");
    harvested(&folder, &["resid"]);
    let args = [&["train", "topk", "--data", "acts", "--set", "k=8", "--json"][..], &SHORT].concat();
    let trained = fine(&folder, &args);
    let scores = &trained["scores"];
    assert_eq!(scores["reconstruction"]["l0"], 8.0);
    let nmse = scores["reconstruction"]["nmse"].as_f64().unwrap_or(9.0);
    assert!(nmse < scores["nulls"]["random_nmse"].as_f64().unwrap_or(0.0), "{scores}");
    assert!(scores["language"]["ce_clean"].as_f64() < scores["language"]["ce_zero"].as_f64(), "{scores}");
    let again = fine(&folder, &["eval", "runs/topk", "--model", &pocket(), "--json"]);
    assert_eq!(again["scores"], trained["scores"], "what is saved is what was scored");
    fine(&folder, &["report", "runs/topk", "--json"]);
    let page = fs::read_to_string(folder.join("runs/topk/report.html")).unwrap_or_default();
    assert!(page.contains("strongest latents") && page.contains("<mark"), "contexts are marked");
    assert!(page.contains("Promotes"), "promoted tokens are listed");
    assert!(!page.contains("<script>alert("), "text is escaped");
}

/// Transcoder and crosscoder, and a dictionary that is trained straight from the model.
#[test]
fn several_hooks_and_live() {
    let folder = scratch("hooks");
    harvested(&folder, &["mlp_in", "mlp_out"]);
    let hooks = ["--set", "data.hooks=[\"1.mlp_in\"]", "--set", "data.target=1.mlp_out"];
    let base = "dictionary.base={name=\"topk\",n=64,k=4}";
    let args =
        [&["train", "transcoder", "--data", "acts", "--set", base, "--set", "dictionary.skip=true", "--json"][..], &hooks, &SHORT[2..]]
            .concat();
    let transcoder = fine(&folder, &args);
    assert!(transcoder["scores"]["reconstruction"]["nmse"].as_f64() < Some(1.0), "{transcoder}");
    let args = [&["train", "crosscoder", "--data", "acts", "--set", base, "--json"][..], &SHORT[2..]].concat();
    let crosscoder = fine(&folder, &args);
    assert!(crosscoder["scores"]["language"]["ce_recovered"].is_f64(), "{crosscoder}");
    let model = pocket();
    let live = [
        "train",
        "batchtopk",
        "--model",
        &model,
        "--hook",
        "0.resid_post",
        "--text",
        "a.txt",
        "--buffer-mib",
        "2",
        "--context-tokens",
        "64",
        "--test-fraction",
        "0.3",
        "--set",
        "k=4",
        "--json",
    ];
    let live = fine(&folder, &[&live[..], &SHORT].concat());
    assert!(live["scores"]["reconstruction"]["nmse"].as_f64() < Some(1.0), "{live}");
    assert_eq!(fine(&folder, &["eval", "runs/batchtopk", "--json"])["scores"], live["scores"]);
}

fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sememe"));
    match command.current_dir(folder).args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => panic!("cannot start sememe: {error}"),
    }
}

/// Killed or interrupted, a dictionary resumes to the same bits: weights, thresholds, and who was silent for how long.
#[cfg(unix)]
#[test]
fn interrupted_runs_resume_to_the_same_bits() {
    let folder = scratch("resume");
    harvested(&folder, &["resid_post"]);
    let model = pocket();
    let shards = ["train", "batchtopk", "--data", "acts", "--quiet", "--set", "k=4", "--set", "dead_after_tokens=2000"];
    let live = [
        "train",
        "batchtopk",
        "--model",
        &model,
        "--hook",
        "0.resid_post",
        "--text",
        "a.txt",
        "--buffer-mib",
        "2",
        "--context-tokens",
        "64",
        "--test-fraction",
        "0.3",
        "--quiet",
        "--set",
        "k=4",
    ];
    for (name, args) in [("shards", &shards[..]), ("live", &live)] {
        let longer = ["--set", "training.steps=300"];
        let whole = format!("{name}-whole");
        let args = [args, &SHORT, &longer].concat();
        succeeds(&folder, &[&args[..], &["--out", &whole]].concat());
        for signal in ["-INT", "-KILL"] {
            let stopped = format!("{name}{signal}");
            let mut child = start(&folder, &[&args[..], &["--out", &stopped]].concat());
            let began = Instant::now();
            while !folder.join(&stopped).join("checkpoint.json").exists() && child.try_wait().is_ok_and(|status| status.is_none()) {
                assert!(began.elapsed() < Duration::from_secs(120), "no checkpoint");
                std::thread::sleep(Duration::from_millis(2));
            }
            let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()));
            let status = child.wait().unwrap_or_else(|error| panic!("{error}"));
            assert!(!status.success(), "{stopped} was not stopped in time");
            succeeds(&folder, &[&args[..], &["--out", &stopped, "--resume"]].concat());
            for file in ["dictionary.safetensors", "dictionary.json"] {
                let read = |run: &str| fs::read(folder.join(run).join(file)).unwrap_or_else(|error| panic!("{run}: {error}"));
                assert!(read(&whole) == read(&stopped), "{stopped}: {file} has other bits");
            }
        }
    }
}

/// Shards many times larger than what the process may hold.
#[cfg(target_os = "linux")]
#[test]
fn data_larger_than_memory_train() {
    let folder = scratch("large");
    harvested(&folder, &["resid"]);
    // The same shard under many names: 400 MB of activations.
    let manifest = folder.join("acts/activations.json");
    let mut json: serde_json::Value = serde_json::from_str(&fs::read_to_string(&manifest).unwrap_or_default()).unwrap_or_default();
    let part = json["train"][0].clone();
    let shard = folder.join("acts").join(part["file"].as_str().unwrap_or_default());
    let copies = 400_000_000 / fs::metadata(&shard).map_or(1, |about| about.len());
    let parts: Vec<serde_json::Value> = (0..copies)
        .map(|k| {
            let name = format!("copy-{k}.safetensors");
            let _ = fs::hard_link(&shard, folder.join("acts").join(&name));
            serde_json::json!({"file": name, "count": part["count"]})
        })
        .collect();
    json["train"] = parts.into();
    fs::write(&manifest, json.to_string()).unwrap_or_else(|error| panic!("{error}"));
    let steps = format!("training.steps={}", copies * part["count"].as_u64().unwrap_or(0) / 1024);
    let args = [
        "train",
        "topk",
        "--data",
        "acts",
        "--quiet",
        "--set",
        "n=64",
        "--set",
        "k=4",
        "--set",
        "training.batch_tokens=1024",
        "--set",
        &steps,
    ];
    let mut child = start(&folder, &args);
    let mut peak = 0;
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let resident =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")).and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = peak.max(resident.unwrap_or(0_u64));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(child.wait().is_ok_and(|status| status.success()));
    assert!(peak > 0 && peak < 300_000, "{peak} KiB at most, of 400 MB of activations");
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn what_makes_no_sense() {
    let folder = scratch("refused");
    harvested(&folder, &["resid", "mlp_out"]);
    let model = pocket();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap_or_else(|error| panic!("{error}"));
    write("empty.txt", "");
    write("broken.jsonl", "{\"text\": \"a\"}\n{\"text\": ");
    write("other.jsonl", "{\"body\": \"a\"}\n");
    let harvest = |args: &[&'static str]| -> Vec<String> {
        ["harvest", &model, "-o", "new"].into_iter().chain(args.iter().copied()).map(String::from).collect()
    };
    let rows: &[(&[&str], &str)] = &[
        (&["--text", "a.txt"], "give a place to read"),
        (&["--hook", "resid", "--text", "a.txt"], "give the layer too"),
        (&["--hook", "9.resid_post", "--text", "a.txt"], "layers 0 to"),
        (&["--hook", "1.middle", "--text", "a.txt"], "the places are"),
        (&["--hook", "1.resid_post"], "give files or folders of text"),
        (&["--hook", "1.resid_post", "--text", "absent.txt"], "absent.txt"),
        (&["--hook", "1.resid_post", "--text", "empty.txt"], "gave no tokens"),
        (&["--hook", "1.resid_post", "--text", "broken.jsonl"], "broken.jsonl"),
        (&["--hook", "1.resid_post", "--text", "other.jsonl"], "`text`"),
        (&["--hook", "1.resid_post", "--hook", "1.resid_post", "--text", "a.txt"], "given twice"),
        (&["--hook", "1.resid_post", "--text", "a.txt", "--test-fraction", "1"], "from 0 to below 1"),
        (&["--hook", "1.resid_post", "--text", "a.txt", "--context-tokens", "1"], "at least 2"),
        (&["--hook", "1.resid_post", "--text", "a.txt", "--resume"], "no activations"),
    ];
    for (args, expected) in rows {
        let all = harvest(args);
        refused(&folder, &all.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }
    refused(&folder, &["harvest", "nowhere", "--hook", "1.resid_post", "--text", "a.txt", "-o", "new"], "no such file or folder");
    refused(&folder, &["harvest", &model, "--hook", "1.resid_post", "--text", "a.txt", "-o", "acts"], "not empty");
    let data = ["--data", "acts"];
    let one = ["--set", "data.hooks=[\"1.resid_post\"]"];
    let rows: &[(&[&str], &str)] = &[
        (&[], "give the folder of activations"),
        (&["--data", "nowhere"], "no activations"),
        (&data, "say which with data.hooks"),
        (&["--data", "acts", "--set", "data.hooks=[\"3.resid_post\"]"], "is not among the activations"),
        (&[&data[..], &one, &["--set", "n=0"]].concat(), "`n` is 0"),
        (&[&data[..], &one, &["--set", "k=99", "--set", "n=10"]].concat(), "`k` is 99"),
        (&[&data[..], &one, &["--set", "m=3"]].concat(), "unknown field `m`"),
        (&[&data[..], &one, &["--set", "data.target=1.mlp_out"]].concat(), "goes with a transcoder"),
        (&[&data[..], &one, &["--set", "training.batch_tokens=10000000"]].concat(), "fewer than a batch"),
        (&[&data[..], &one, &["--set", "training.steps=0"]].concat(), "`steps` is 0"),
        (
            &[
                &data[..],
                &one,
                &["--set", "training.learning_rate=1e30", "--set", "n=64", "--set", "k=4", "--set", "training.warm_up_steps=1"],
            ]
            .concat(),
            "is not finite",
        ),
        (&["--data", "acts", "--text", "a.txt"], "go with --model"),
        (&["--model", &model, "--hook", "1.resid_post"], "give files or folders of text"),
    ];
    for (args, expected) in rows {
        refused(&folder, &[&["train", "topk", "--quiet", "--overwrite"], *args].concat(), expected);
    }
    refused(&folder, &["train", "transcoder", "--data", "acts", "--set", "data.hooks=[\"1.resid_post\"]"], "needs data.target");
    refused(&folder, &["train", "crosscoder", "--data", "acts", "--set", "layers=3"], "a crosscoder of 3 layers");
    refused(&folder, &["train", "synthetic-diverse", "--data", "acts"], "go with a dictionary");
    refused(&folder, &["train", "pocket-dictionaries"], "use `sememe compare pocket-dictionaries`");
    refused(&folder, &["compare", "three-dots"], "use `sememe train three-dots`");
    // A shard that was cut short.
    let shard = folder.join("acts/test-00000.safetensors");
    let bytes = fs::read(&shard).unwrap_or_default();
    fs::write(&shard, &bytes[..bytes.len() / 2]).unwrap_or_else(|error| panic!("{error}"));
    let short = ["train", "topk", "--data", "acts", "--quiet", "--overwrite", "--set", "data.hooks=[\"1.resid_post\"]", "--set", "k=4"];
    refused(&folder, &[&short[..], &SHORT].concat(), "the file is damaged");
}
