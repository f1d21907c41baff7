//! Known truth end to end: where the structure is diverse the latents are recovered with the penalty and not without; a fully connected structure is not recovered either way.
//!
//! Takes about a minute on two cores.

use std::path::Path;
use std::process::Command;

/// `(MCC, null MCC, structure F1)` of a run of the recipe with these settings.
fn scores(name: &str, settings: &[&str]) -> (f64, f64, f64) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recovery-{name}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_sememe"));
    command.args(["--json", "train", "synthetic-diverse", "--overwrite", "--out"]).arg(&folder);
    for setting in ["training.steps=1500", "data.test_samples=2000"].iter().chain(settings) {
        command.args(["--set", setting]);
    }
    let output = command.output().unwrap_or_else(|error| panic!("{error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(last) = text.lines().last() else { panic!("no result") };
    let result: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"));
    let of = |tag: &str, path: &str| {
        let line = result["scores"].as_array().and_then(|lines| lines.iter().find(|line| line["metric"] == tag));
        line.and_then(|line| line.pointer(path)).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("no {tag} in {last}"))
    };
    (of("mcc-pearson", "/score/value"), of("mcc-pearson", "/score/null/mean"), of("structure-f1", "/score/value"))
}

#[test]
fn diverse_structures_are_recovered_and_others_are_not() {
    let (mcc, null, f1) = scores("diverse", &[]);
    assert!(mcc > 0.9 && f1 > 0.9 && mcc > null + 0.15, "diverse, dependency sparsity: MCC {mcc} (null {null}), F1 {f1}");
    let (plain, ..) = scores("plain", &["penalty=[]", "training.realign.at_fractions=[]"]);
    assert!(plain < mcc - 0.1, "diverse, no penalty: MCC {plain} against {mcc}");
    let (dense, dense_null, _) = scores("dense", &["data.world.structure.kind=dense"]);
    assert!(dense < dense_null + 0.15, "fully connected: MCC {dense} (null {dense_null})");
}
