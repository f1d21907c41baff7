//! The pocket model is worth what its page says, and a small transformer that was stopped ends at the same bits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burn::tensor::Device;
use sememe_lm::load;
use sememe_run::config::parse;
use sememe_run::language_model::{Config, HeldOut, held_out_nats, train};
use sememe_run::observe::Verbosity;
use sememe_run::start::{Outcome, RunOptions};
use sememe_run::text;

fn pocket() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket")
}

/// Nats a token on the text that comes with the model, as on its page; takes ten seconds.
#[test]
fn the_pocket_model_predicts_as_well_as_its_page_says() {
    let (model, tokenizer) = load(&pocket().display().to_string(), &Device::flex()).unwrap_or_else(|error| panic!("{error}"));
    let documents: Vec<HeldOut> = text::open(&[pocket().join("text")], None)
        .unwrap_or_else(|error| panic!("{error}"))
        .map(|document| {
            HeldOut::new(&document.unwrap_or_else(|error| panic!("{error}")), &tokenizer).unwrap_or_else(|error| panic!("{error}"))
        })
        .collect();
    let tokens: usize = documents.iter().map(|document| document.tokens.len() - 1).sum();
    let nats = held_out_nats(&model, &documents, 256).unwrap_or_else(|error| panic!("{error}")) / tokens as f64;
    let page = std::fs::read_to_string(pocket().join("README.md")).unwrap_or_default();
    let stated = page.lines().find_map(|line| line.strip_prefix("| transformer |")?.split('|').next()?.trim().parse::<f64>().ok());
    let stated = stated.unwrap_or_else(|| panic!("the page has no line `transformer`"));
    assert!((nats - stated).abs() < 1e-3, "{nats} against {stated}");
}

#[test]
fn a_stopped_transformer_ends_at_the_same_bits() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("language-model");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    let documents: String = (0..40).map(|k| format!("{{\"text\": \"Of the people {k}, by the people, for the people {k}.\"}}\n")).collect();
    std::fs::write(folder.join("a.jsonl"), documents.repeat(3)).unwrap_or_else(|error| panic!("{error}"));
    let toml = format!(
        "[transformer]\nvocabulary = 280\nlayers = 1\nwidth = 16\nheads = 2\nkv_heads = 1\nmlp_width = 24\ncontext = 16\n\
         [text]\nfiles = [{:?}]\nheld_out_fraction = 0.2\n[training]\nsteps = 24\nbatch = 4\n[output]\nlog_every = 4\ncheckpoint_every = 5\n",
        folder.join("a.jsonl").display().to_string()
    );
    let config: Config = parse(&toml, "test", &[]).unwrap_or_else(|error| panic!("{error}"));
    let run = |name: &str, resume: bool, interrupt: bool| {
        let options = RunOptions {
            resume,
            overwrite: false,
            verbosity: Verbosity::Quiet,
            command: "test".into(),
            recipe: None,
            interrupt: Arc::new(AtomicBool::new(interrupt)),
        };
        train(&config, &folder.join(name), &options).unwrap_or_else(|error| panic!("{error}"))
    };
    let Outcome::Finished(whole) = run("whole", false, false) else { panic!("not stopped") };
    assert!(whole.lines[0].nats_per_token < 280_f64.ln(), "{:?}", whole.lines);
    // Each call takes one step more, and is stopped.
    let mut outcome = run("stopped", false, true);
    for _ in 0..7 {
        outcome = run("stopped", true, true);
    }
    assert!(matches!(outcome, Outcome::Interrupted { step: 8 }), "{outcome:?}");
    let Outcome::Finished(_) = run("stopped", true, false) else { panic!("not stopped") };
    for file in ["model/model.safetensors", "model/tokenizer.json", "model/config.json"] {
        let read = |run: &str| std::fs::read(folder.join(run).join(file)).unwrap_or_else(|error| panic!("{error}"));
        assert!(read("whole") == read("stopped"), "{file}");
    }
}
