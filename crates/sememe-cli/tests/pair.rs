//! A pair of dictionaries around an MLP as a user trains it: report, graph, resumed runs, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn sememe(folder: &Path, args: &[&str]) -> Output {
    match Command::new(env!("CARGO_BIN_EXE_sememe")).current_dir(folder).args(args).output() {
        Ok(output) => output,
        Err(error) => panic!("cannot start sememe: {error}"),
    }
}

fn fine(folder: &Path, args: &[&str]) -> serde_json::Value {
    let output = sememe(folder, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{args:?}: {error}: {last}"))
}

fn refused(folder: &Path, args: &[&str], expected: &str) {
    let output = sememe(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{args:?} succeeded");
    assert!(said.contains(expected) && !said.contains("panicked"), "{args:?} said: {said}\nexpected: {expected}");
    assert_eq!(said.trim().lines().count(), 1, "{args:?} said more than one line: {said}");
}

/// A folder with activations of both sides of an MLP.
fn harvested(name: &str, hooks: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pair-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    let lines: String =
        (0..60).map(|k| format!("Section {k}. The people of the United States <script>and</script> the whale.\n")).collect();
    fs::write(folder.join("a.txt"), lines.repeat(4)).unwrap_or_else(|error| panic!("{error}"));
    let pocket = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket").display().to_string();
    let mut args = vec!["harvest", &pocket, "--layer", "1", "--text", "a.txt", "-o", "acts", "--test-fraction", "0.3"];
    hooks.split(',').for_each(|hook| args.extend(["--hook", hook]));
    fine(&folder, &[&args[..], &["--context-tokens", "64"]].concat());
    folder
}

const SHORT: [&str; 18] = [
    "--set",
    "n=96",
    "--set",
    "k=6",
    "--set",
    "training.steps=60",
    "--set",
    "training.batch_tokens=128",
    "--set",
    "training.warm_up_steps=5",
    "--set",
    "evaluation.contexts=2",
    "--set",
    "jacobian_evaluation.tokens=300",
    "--set",
    "jacobian_evaluation.curves=50",
    "--data",
    "acts",
];

#[test]
fn from_activations_to_a_graph() {
    let folder = harvested("whole", "mlp_in,mlp_out");
    let train = |out: &str, more: &[&str]| fine(&folder, &[&["train", "jacobian", "--out", out][..], &SHORT, more].concat());
    let said = train("with", &["--set", "weight=3.0"]);
    let without = train("without", &["--set", "weight=0"]);
    let l1 = |said: &serde_json::Value| said["scores"]["jacobian"]["entries"]["l1"].as_f64().unwrap_or_else(|| panic!("{said}"));
    assert!(l1(&said) < 0.8 * l1(&without), "the penalty shrinks the Jacobian: {} {}", l1(&said), l1(&without));
    let again = fine(&folder, &["eval", "with"]);
    assert_eq!(again["scores"], said["scores"], "evaluated again");
    let report = fs::read_to_string(folder.join("with/report.html")).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        report.contains("graph of latents") && !report.contains("<script>and"),
        "the report shows the graph, and no markup of the text"
    );

    let graph = fine(&folder, &["graph", "with", "--edges", "30", "-o", "graph.json"]);
    let edges = graph["graph"]["edges"].as_array().map_or(0, Vec::len);
    assert_eq!(edges, 30);
    let strengths: Vec<f64> =
        graph["graph"]["edges"].as_array().into_iter().flatten().filter_map(|edge| edge["strength"].as_f64()).collect();
    assert!(strengths.is_sorted_by(|a, b| a >= b) && strengths[0] > 0.0);
    let of_text = fine(&folder, &["graph", "with", "--text", "the people of <b>", "-o", "graph.graphml"]);
    assert!(of_text["graph"]["tokens"].as_u64() > Some(1));
    assert_eq!(fine(&folder, &["graph", "with", "--text", "the people", "--token", "1", "-o", "graph.svg"])["graph"]["tokens"], 1);
    let written = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{error}"));
    assert!(written("graph.graphml").contains("&lt;b&gt;") && written("graph.svg").starts_with("<svg"));
    assert!(written("graph.json").contains("1.mlp_in"));
    // Each side is a dictionary that other tools can have.
    fine(&folder, &["convert", "with/input", "--to", "saelens", "-o", "sae"]);

    refused(&folder, &["graph", "with", "--text", "the", "--token", "99"], "tokens, 0 to");
    refused(&folder, &["graph", "with", "-o", "graph.dot"], "ends in .json, .graphml or .svg");
    refused(&folder, &["graph", "nowhere"], "nowhere");
}

#[test]
fn a_stopped_pair_ends_at_the_same_bits() {
    let folder = harvested("resume", "mlp_in,mlp_out");
    let train = |more: &[&str]| fine(&folder, &[&["train", "jacobian"][..], &SHORT, more].concat());
    train(&["--out", "whole", "--set", "output.checkpoint_every=20"]);
    // The first half leaves a checkpoint; a crash later leaves whatever it leaves.
    train(&["--out", "half", "--set", "output.checkpoint_every=20"]);
    let checkpoint = |run: &str| fs::read(folder.join(run).join("input/dictionary.safetensors")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(checkpoint("whole"), checkpoint("half"), "the same seed gives the same bits");
    let resumed = fine(
        &folder,
        &[&["train", "jacobian"][..], &SHORT, &["--out", "half", "--set", "output.checkpoint_every=20", "--resume"]].concat(),
    );
    assert!(resumed["scores"].is_object());
    assert_eq!(checkpoint("whole"), checkpoint("half"), "a finished run that is resumed stays what it is");
}

#[test]
fn what_is_refused() {
    let folder = harvested("refused", "mlp_in,mlp_out,resid_post");
    let with = |more: &[&'static str]| [&["train", "jacobian", "--out", "x"][..], &SHORT, more].concat();
    refused(&folder, &with(&["--set", "k=97"]), "k");
    refused(&folder, &with(&["--set", "weight=-1"]), "`weight` is -1");
    refused(&folder, &with(&["--set", "latents_fraction=0"]), "`latents_fraction` is 0");
    refused(&folder, &with(&["--set", "pair.jacobian.kind.name=orojar"]), "acts on each entry");
    refused(&folder, &["train", "jacobian", "--data", "acts", "--out", "x", "--set", "pair.input.name=relu"], "give `topk` or `batchtopk`");
    refused(&folder, &with(&["--set", "data.hooks=[\"1.mlp_in\"]", "--set", "data.target=1.resid_post"]), "no MLP lies between");
    refused(&folder, &with(&["--set", "data.hooks=[\"1.mlp_in\"]"]), "give both");
    refused(&folder, &with(&["--set", "data.hooks=[\"1.mlp_in\"]", "--set", "data.target=2.mlp_out"]), "2.mlp_out");
    refused(&folder, &with(&["--set", "evaluation.model=random:acts"]), "acts");
    assert!(!folder.join("x").exists(), "nothing is written before all of it is checked");
    let other = harvested("one", "resid_post");
    refused(&other, &[&["train", "jacobian"][..], &SHORT].concat(), "what enters a layer and what leaves it");
}
