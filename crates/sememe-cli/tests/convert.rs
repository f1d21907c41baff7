//! `sememe convert`: a dictionary arrives in the other format, and what cannot arrive gets one clear line and leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn sememe(folder: &Path, args: &[&str]) -> Output {
    match Command::new(env!("CARGO_BIN_EXE_sememe")).current_dir(folder).args(args).output() {
        Ok(output) => output,
        Err(error) => panic!("cannot start sememe: {error}"),
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("convert-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    folder
}

/// A dictionary that another tool wrote.
fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sememe-run/tests/interop").join(name).display().to_string()
}

#[test]
fn there_and_back() {
    let folder = scratch("there-and-back");
    let input = fixture("saelens-jumprelu");
    for (input, to, out, file) in [
        (input.as_str(), "gemma-scope", "scope", "params.npz"),
        ("scope", "dictionary-learning", "deep/er/dl", "ae.pt"),
        ("deep/er/dl", "saelens", "lens", "sae_weights.safetensors"),
    ] {
        let output = sememe(&folder, &["--json", "convert", input, "--to", to, "-o", out]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((said["kind"].as_str(), said["n"].as_u64(), said["to"].as_str()), (Some("jumprelu"), Some(16), Some(to)));
        assert!(folder.join(out).join(file).is_file());
    }
}

/// Fixture, or file of the scratch folder where there is none; format; folder to write; and the part of the message that must be there.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    ("saelens-topk", "saelenz", "out", "--to is `saelenz`; known are saelens, dictionary-learning, sparsify, gemma-scope"),
    ("absent", "saelens", "out", "absent: holds no dictionary of a known format"),
    (".", "saelens", "out", "holds no dictionary of a known format; known are sae_weights.safetensors"),
    ("torn.npz", "saelens", "out", "torn.npz: not an .npz file"),
    ("saelens-topk", "sparsify", "taken", "taken: exists already; give a folder that does not exist yet"),
    ("saelens-topk", "sparsify", "torn.npz", "torn.npz: exists already"),
    ("saelens-topk", "sparsify", "torn.npz/out", "torn.npz/out"),
    ("saelens-topk", "gemma-scope", "out", "out/params.npz: `name` is `topk`; gemma-scope can hold jumprelu"),
    ("saelens-gated", "sparsify", "out", "out: `name` is `gated`; sparsify can hold topk"),
    ("saelens-standard", "gemma-scope", "out", "`name` is `relu`; gemma-scope can hold jumprelu"),
    ("saelens-skip-transcoder", "dictionary-learning", "out", "`name` is `transcoder` of `relu`; dictionary-learning can hold relu"),
    ("sparsify-skip-transcoder", "saelens", "out", "`name` is `transcoder` of `topk`; saelens can hold relu"),
    ("sparsify-skip-transcoder", "sparsify", "out", "`d` is 6 in and 5 out; sparsify can hold one width"),
];

#[test]
fn conversions_that_make_no_sense() {
    let folder = scratch("refused");
    fs::create_dir(folder.join("taken")).unwrap_or_else(|error| panic!("{error}"));
    fs::write(folder.join("torn.npz"), b"PK nothing").unwrap_or_else(|error| panic!("{error}"));
    for (input, to, out, expected) in REFUSED {
        let at = fixture(input);
        let input = if Path::new(&at).is_dir() && *input != "." { at.as_str() } else { input };
        let output = sememe(&folder, &["convert", input, "--to", to, "--out", out]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{input} to {to} succeeded");
        assert!(said.contains(expected), "{input} to {to} said: {said}\nexpected: {expected}");
        assert_eq!(said.trim().lines().count(), 1, "{input} to {to} said more than one line: {said}");
        let left = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{error}")).count();
        assert_eq!(left, 2, "{input} to {to} left something behind");
    }
}
