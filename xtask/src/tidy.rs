//! Laws of the tree that no compiler checks: floors, first sentences, sources, lengths, and paths in the documentation.

use std::fs;
use std::path::{Path, PathBuf};

/// The floors, lowest first: a crate may depend only on crates before it.
const FLOORS: [&str; 6] = ["sememe-truth", "sememe-kernels", "sememe", "sememe-lm", "sememe-run", "sememe-cli"];
/// Folders whose files are members of a catalogue and must name their source.
const MEMBERS: [&str; 4] =
    ["crates/sememe/src/penalty", "crates/sememe/src/generative", "crates/sememe/src/dictionary", "crates/sememe-truth/src/world"];
/// Lines that a source file has at most.
const MOST_LINES: usize = 450;

/// Prints every breach; true when there is none.
pub fn run() -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default();
    let mut breaches = Vec::new();
    floors(&root, &mut breaches);
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        collect(&root.join(folder), &mut files);
    }
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).display().to_string();
        let text = fs::read_to_string(file).unwrap_or_default();
        if name.ends_with(".rs") {
            source_file(&name, &text, &mut breaches);
        }
    }
    documentation(&root, &mut breaches);
    for breach in &breaches {
        eprintln!("tidy: {breach}");
    }
    println!("tidy: {} files, {} breaches", files.len(), breaches.len());
    breaches.is_empty()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

fn floors(root: &Path, breaches: &mut Vec<String>) {
    for (floor, name) in FLOORS.iter().enumerate() {
        let manifest = fs::read_to_string(root.join("crates").join(name).join("Cargo.toml")).unwrap_or_default();
        for above in &FLOORS[floor..] {
            let depends = manifest.lines().any(|line| line.starts_with(&format!("{above}.")) || line.starts_with(&format!("{above} =")));
            if depends {
                breaches.push(format!("crates/{name}/Cargo.toml depends upwards on {above}"));
            }
        }
        // Disk belongs to the upper floors only.
        if floor < 3 {
            let mut files = Vec::new();
            collect(&root.join("crates").join(name).join("src"), &mut files);
            for file in files {
                let text = fs::read_to_string(&file).unwrap_or_default();
                if text.contains("std::fs") || text.contains("println!(") {
                    breaches.push(format!("{}: touches the disk or prints, which only sememe-run and above may", file.display()));
                }
            }
        }
    }
}

fn source_file(name: &str, text: &str, breaches: &mut Vec<String>) {
    if !text.starts_with("//! ") {
        breaches.push(format!("{name}: does not open with a `//!` sentence that says its job"));
    }
    if text.lines().count() > MOST_LINES {
        breaches.push(format!("{name}: {} lines; which second thought crept in?", text.lines().count()));
    }
    let is_member = MEMBERS.iter().any(|folder| name.starts_with(folder)) && text.contains("impl Member for");
    if is_member && !text.contains("//! # Source") {
        breaches.push(format!("{name}: a member without `# Source` in its head"));
    }
}

/// Every path in backquotes that looks like one of ours must exist.
fn documentation(root: &Path, breaches: &mut Vec<String>) {
    let mut pages = vec![];
    collect(&root.join("docs"), &mut pages);
    pages.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md"].map(|page| root.join(page)));
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let Ok(text) = fs::read_to_string(page) else {
            breaches.push(format!("{}: missing", page.display()));
            continue;
        };
        for path in text.split('`').skip(1).step_by(2) {
            let ours = ["crates/", "docs/", "recipes/", "benches/", "xtask/"].iter().any(|start| path.starts_with(start));
            let plain = !path.contains(['*', ' ', '<', '{', 'N']);
            if ours && plain && !root.join(path).exists() {
                breaches.push(format!("{}: names `{path}`, which does not exist", page.display()));
            }
        }
    }
}
