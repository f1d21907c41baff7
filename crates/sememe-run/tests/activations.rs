//! Laws of harvested activations: they are the model's, each token once, the same bits after a stop, and batches in any order of asking.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burn::tensor::Device;
use sememe::dictionary::Batches;
use sememe_lm::{Hook, Tokens, load};
use sememe_run::activations::{Activations, Chunk, HarvestConfig, Harvested, Hooks, LiveBatches, Precision, ShardBatches, harvest};
use sememe_run::observe::{Interrupt, Verbosity};

fn pocket() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket")
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("activations-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    folder
}

/// Twelve short documents, so that there is something to shuffle.
fn text(folder: &Path) -> PathBuf {
    let file = folder.join("documents.jsonl");
    let documents: String = (0..12)
        .map(|k| {
            let text = format!("Document {k} of the people and of the ships. ").repeat(6 + k);
            format!("{}\n", serde_json::json!({"text": text}))
        })
        .collect();
    std::fs::write(&file, documents).unwrap_or_else(|error| panic!("{error}"));
    file
}

fn config(folder: &Path) -> HarvestConfig {
    HarvestConfig {
        model: pocket().display().to_string(),
        text: vec![text(folder)],
        hooks: vec!["1.resid_post".into(), "1.mlp_in".into()],
        context_tokens: 32,
        batch_contexts: 3,
        precision: Precision::F32,
        buffer_mib: 1,
        shard_tokens: 300,
        test_fraction: 0.3,
        ..HarvestConfig::default()
    }
}

fn never() -> Interrupt {
    Arc::new(AtomicBool::new(false))
}

fn finished(config: &HarvestConfig, folder: &Path) -> Activations {
    match harvest(config, folder, (false, false), Verbosity::Quiet, &never()) {
        Ok(Harvested::Finished(source)) => *source,
        other => panic!("{other:?}"),
    }
}

fn shards(source: &Activations, test: bool) -> Vec<Chunk> {
    let parts = if test { &source.manifest.test } else { &source.manifest.train };
    parts.iter().map(|part| source.shard(part).unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[test]
fn what_is_in_the_shards_is_what_the_model_computes() {
    let folder = scratch("values");
    let source = finished(&config(&folder), &folder.join("acts"));
    let (model, tokenizer) = load(&pocket().display().to_string(), &Device::flex()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(source.manifest.fingerprint, model.fingerprint());
    let contexts = source.contexts().unwrap_or_else(|error| panic!("{error}"));
    let hooks: Vec<Hook> = source.manifest.hooks.iter().map(|info| info.hook.parse().unwrap_or_else(|error| panic!("{error}"))).collect();
    let read: Vec<Vec<Vec<f32>>> = contexts
        .iter()
        .map(|ids| {
            let read = model.read(&Tokens::one(ids.clone()), &hooks).unwrap_or_else(|error| panic!("{error}"));
            read.into_iter().map(|values| values.into_data().iter::<f32>().collect()).collect()
        })
        .collect();
    let mut seen = BTreeMap::new();
    let (mut norms, mut count) = (0.0, 0.0);
    for chunk in shards(&source, false).iter().chain(&shards(&source, true)) {
        for row in 0..chunk.len() {
            let (context, position) = (chunk.contexts[row] as usize, chunk.positions[row] as usize);
            assert_eq!(contexts[context][position], chunk.token_ids[row]);
            *seen.entry((context, position)).or_insert(0) += 1;
            for (hook, info) in source.manifest.hooks.iter().enumerate() {
                let mut got = vec![0.0; info.width];
                chunk.row(hook, row, source.manifest.precision, 1.0, &mut got);
                let expected = &read[context][hook][position * info.width..(position + 1) * info.width];
                let scale = expected.iter().copied().map(f32::abs).fold(0.0, f32::max);
                let most = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                // Padding and other rows of the batch change no more than rounding.
                assert!(most <= 1e-5 * scale, "{most} of {scale}");
                if hook == 0 {
                    norms += got.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
                    count += 1.0;
                }
            }
        }
    }
    let expected: Vec<(usize, usize)> = contexts
        .iter()
        .enumerate()
        .flat_map(|(context, ids)| ids.iter().enumerate().map(move |(position, &id)| (context, position, id)))
        .filter(|&(_, position, id)| position > 0 && !tokenizer.is_special(id))
        .map(|(context, position, _)| (context, position))
        .collect();
    assert!(seen.keys().copied().eq(expected), "all tokens but the first and special ones");
    assert!(seen.values().all(|&times| times == 1), "each once");
    assert!((source.manifest.hooks[0].mean_norm - norms / count).abs() < 1e-6 * norms / count);
    assert!(source.manifest.test_tokens() > 0 && source.manifest.train_tokens() > 300);
    let order: Vec<u32> = shards(&source, true).iter().flat_map(|chunk| chunk.contexts.clone()).collect();
    assert!(order.is_sorted(), "held-out tokens stand in the order of the text");
    let order: Vec<u32> = shards(&source, false).iter().flat_map(|chunk| chunk.contexts.clone()).collect();
    assert!(!order.is_sorted(), "tokens to train on are shuffled");
}

/// Stopped after every single batch and resumed, a harvest writes the shards of one that was left alone.
#[test]
fn a_harvest_that_was_stopped_ends_at_the_same_bits() {
    let folder = scratch("resume");
    // A buffer of a few hundred tokens is emptied several times.
    let config = HarvestConfig { hooks: vec!["0.resid_post".into(), "1.mlp_hidden".into()], ..config(&folder) };
    let whole = finished(&config, &folder.join("whole"));
    let stopped = Arc::new(AtomicBool::new(true));
    let path = folder.join("stopped");
    let mut resume = false;
    let source = (0..1000).find_map(|_| {
        let ended = harvest(&config, &path, (resume, false), Verbosity::Quiet, &stopped).unwrap_or_else(|error| panic!("{error}"));
        resume = true;
        match ended {
            Harvested::Finished(source) => Some(*source),
            Harvested::Interrupted { .. } => None,
        }
    });
    let source = source.unwrap_or_else(|| panic!("it never ends"));
    assert_eq!(source.manifest.train, whole.manifest.train);
    assert_eq!(source.manifest.hooks, whole.manifest.hooks);
    assert_eq!(source.manifest.left_out, whole.manifest.left_out);
    for part in &whole.manifest.train {
        let read = |folder: &Path| std::fs::read(folder.join(&part.file)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read(&whole.path), read(&path), "{}", part.file);
    }
    assert_eq!(source.contexts().ok(), whole.contexts().ok());
    let rows = |source: &Activations| -> Vec<u32> { shards(source, true).into_iter().flat_map(|chunk| chunk.token_ids).collect() };
    assert_eq!(rows(&source), rows(&whole));
    assert!(!path.join("buffer.safetensors").exists());
}

/// Another model, other text or other settings do not go on with what is there.
#[test]
fn a_resumed_harvest_must_be_the_same() {
    let folder = scratch("other");
    let config = config(&folder);
    let path = folder.join("acts");
    finished(&config, &path);
    for other in [
        HarvestConfig { hooks: vec!["0.resid_post".into()], ..config.clone() },
        HarvestConfig { context_tokens: 16, ..config.clone() },
        HarvestConfig { seed: 1, ..config.clone() },
        HarvestConfig { precision: Precision::Bf16, ..config.clone() },
    ] {
        let error = harvest(&other, &path, (true, false), Verbosity::Quiet, &never()).map(|_| ()).expect_err("other settings");
        assert!(error.to_string().contains("was begun with"), "{error}");
    }
    let error = harvest(&config, &path, (false, false), Verbosity::Quiet, &never()).map(|_| ()).expect_err("not empty");
    assert!(error.to_string().contains("--overwrite"), "{error}");
}

fn one_hook() -> Hooks {
    Hooks { input: vec![(0, 2.0)], target: vec![(1, 1.0)] }
}

fn numbers(batches: &mut dyn Batches, step: usize) -> (Vec<f32>, Vec<f32>) {
    let batch = batches.next(step).unwrap_or_else(|error| panic!("{error}"));
    (batch.input.into_data().iter::<f32>().collect(), batch.target.into_data().iter::<f32>().collect())
}

/// An epoch gives every token once, in an order of its own; a batch is a function of its step alone.
#[test]
fn batches_are_a_function_of_the_step() {
    let folder = scratch("batches");
    let source = finished(&config(&folder), &folder.join("acts"));
    let width = source.manifest.hooks[0].width;
    let batches = || ShardBatches::new(source.clone(), one_hook(), 64, 5, Device::flex()).unwrap_or_else(|error| panic!("{error}"));
    let per_epoch = source.manifest.train_tokens() / 64;
    let mut one = batches();
    let steps: Vec<_> = (0..2 * per_epoch).map(|step| numbers(&mut one, step)).collect();
    for step in [2 * per_epoch - 1, per_epoch, 1, 0, per_epoch - 1] {
        assert!(numbers(&mut batches(), step) == steps[step], "step {step} alone");
    }
    let rows = |epoch: usize| {
        let mut rows: Vec<Vec<u32>> = steps[epoch * per_epoch..(epoch + 1) * per_epoch]
            .iter()
            .flat_map(|(input, _)| input.chunks(width).map(|row| row.iter().map(|x| x.to_bits()).collect()))
            .collect();
        rows.sort();
        rows
    };
    let (first, second) = (rows(0), rows(1));
    let mut all: Vec<Vec<u32>> = Vec::new();
    for chunk in shards(&source, false) {
        for row in 0..chunk.len() {
            let mut values = vec![0.0; width];
            chunk.row(0, row, source.manifest.precision, 2.0, &mut values);
            all.push(values.iter().map(|x| x.to_bits()).collect());
        }
    }
    all.sort();
    let within = |rows: &[Vec<u32>]| {
        let mut rest = all.iter();
        rows.iter().all(|row| rest.any(|other| other == row))
    };
    assert!(within(&first) && within(&second), "each token of an epoch is one of the shards', and no more often");
    assert!(steps[0] != steps[per_epoch], "another order in the next epoch");
}

/// Live batches: the same after a stop, whether the buffer was saved or not.
#[test]
fn live_batches_go_on_where_they_were() {
    let folder = scratch("live");
    let config = HarvestConfig { test_tokens: 100, ..config(&folder) };
    let source = finished(&HarvestConfig { tokens: 200, ..config.clone() }, &folder.join("live"));
    let batches = || LiveBatches::new(&config, source.clone(), one_hook(), 32, Device::flex()).unwrap_or_else(|error| panic!("{error}"));
    let mut whole = batches();
    let steps: Vec<_> = (0..60).map(|step| numbers(&mut whole, step)).collect();
    let mut first = batches();
    (0..41).for_each(|step| assert!(numbers(&mut first, step) == steps[step], "step {step}"));
    first.save(&folder.join("buffer")).unwrap_or_else(|error| panic!("{error}"));
    let mut restored = batches();
    assert_eq!(restored.restore(&folder.join("buffer"), 40).ok(), Some(false), "the buffer of another step");
    assert_eq!(restored.restore(&folder.join("buffer"), 41).ok(), Some(true));
    assert!((41..60).all(|step| numbers(&mut restored, step) == steps[step]), "with the buffer");
    let mut repeated = batches();
    assert!((41..60).all(|step| numbers(&mut repeated, step) == steps[step]), "without");
}
