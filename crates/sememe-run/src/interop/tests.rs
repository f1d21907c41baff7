//! Every fixture that other tools wrote (`scripts/interop_fixtures.py`) is read with their reconstruction and L0, and survives being written.

use burn::tensor::{Tensor, TensorData, Tolerance};
use sememe::dictionary::{BatchTopK, Codes, TopK, Widths};

use super::*;

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
    let mut folders: Vec<_> = std::fs::read_dir(root).expect("fixtures").map(|entry| entry.expect("a folder").path()).collect();
    folders.sort();
    folders
}

fn matrix(value: &Value) -> Tensor<2> {
    let rows: Vec<Vec<f32>> = serde_json::from_value(value.clone()).expect("a matrix");
    let shape = [rows.len(), rows[0].len()];
    Tensor::from_data(TensorData::new(rows.concat(), shape), &Device::flex())
}

/// Reconstruction and L0 of a token.
fn computed(dictionary: &Dictionary, x: Tensor<2>) -> (Tensor<2>, Vec<f32>) {
    let codes: Codes = dictionary.codes(x.clone());
    let (pattern, values) = codes.active();
    let l0 = (0..pattern.rows()).map(|row| pattern.range(row).filter(|&entry| values[entry] != 0.0).count() as f32).collect();
    (dictionary.decode(&codes, &x), l0)
}

#[test]
fn fixtures_are_read_and_survive_being_written() {
    let all = fixtures();
    assert!(all.len() >= 29, "{} fixtures", all.len());
    let mut written = 0;
    for folder in all {
        let expected = read_json(&folder.join("expected.json")).expect("expected numbers");
        let imported = import(&folder, None, &Device::flex()).unwrap_or_else(|error| panic!("{error}"));
        let check = |dictionary: &Dictionary, what: &str| {
            let (output, l0) = computed(dictionary, matrix(&expected["input"]));
            output.into_data().assert_approx_eq::<f32>(&matrix(&expected["output"]).into_data(), Tolerance::absolute(2e-5));
            let expected: Vec<f32> = serde_json::from_value(expected["l0"].clone()).expect("numbers");
            assert_eq!(l0, expected, "{what} {}", folder.display());
        };
        check(&imported.dictionary, "read");
        for format in Format::ALL {
            let out = std::env::temp_dir().join(format!("sememe-interop-{}-{written}", std::process::id()));
            match export(&imported.dictionary, format, &out, &Map::new()) {
                Ok(()) => {
                    let again = import(&out, None, &Device::flex()).unwrap_or_else(|error| panic!("{error}"));
                    assert_eq!(again.format, format);
                    check(&again.dictionary, format.tag());
                    written += 1;
                }
                Err(InteropError::Unsupported { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            std::fs::remove_dir_all(&out).unwrap_or_default();
        }
    }
    assert!(written >= 40, "{written} written");
}

/// A BatchTopK dictionary is saved as a JumpReLU with its running threshold, which is applied once.
#[test]
fn batchtopk_is_saved_as_jumprelu() {
    let kind = DictionaryKind::BatchTopK(BatchTopK { n: 16, k: 3, ..BatchTopK::default() });
    let mut dictionary = Dictionary::new(kind, Widths::same(6), 0, &Device::flex()).expect("a dictionary");
    dictionary.memory.set_threshold(0.4);
    let x = matrix(&read_json(&fixtures()[0].join("expected.json")).expect("expected numbers")["input"]);
    let out = std::env::temp_dir().join(format!("sememe-interop-batchtopk-{}", std::process::id()));
    for format in [Format::SaeLens, Format::DictionaryLearning, Format::GemmaScope] {
        export(&dictionary, format, &out, &Map::new()).expect("written");
        let again = import(&out, Some(format), &Device::flex()).expect("read").dictionary;
        assert_eq!(again.kind.tag(), "jumprelu");
        let (expected, l0) = computed(&dictionary, x.clone());
        let (output, l0_again) = computed(&again, x.clone());
        assert_eq!(l0, l0_again);
        output.into_data().assert_approx_eq::<f32>(&expected.into_data(), Tolerance::absolute(1e-5));
    }
    std::fs::remove_dir_all(&out).unwrap_or_default();
}

/// A folder of this test's own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sememe-interop-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    /// A copy of a fixture.
    fn copy_of(&self, fixture: &str) -> PathBuf {
        let folder = self.0.join(fixture);
        std::fs::create_dir_all(&folder).expect("a folder");
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(fixture);
        for entry in std::fs::read_dir(from).expect("a fixture") {
            let path = entry.expect("a file").path();
            std::fs::copy(&path, folder.join(path.file_name().expect("a name"))).expect("copied");
        }
        folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn topk() -> Dictionary {
    let kind = DictionaryKind::TopK(TopK { n: 16, k: 3, ..TopK::default() });
    Dictionary::new(kind, Widths::same(6), 0, &Device::flex()).expect("a dictionary")
}

fn refusal(path: &Path) -> String {
    import(path, None, &Device::flex()).expect_err("an error").to_string()
}

/// A fixture, a file of it, a key (of the config's top, or of its `trainer`), its new value, and the part of the message that must be there.
const CONFIGS: &[(&str, &str, &str, &str, &str)] = &[
    ("saelens-topk", "cfg.json", "architecture", "\"temporal\"", "`architecture` is \"temporal\"; known are standard"),
    (
        "saelens-topk",
        "cfg.json",
        "normalize_activations",
        "\"layer_norm\"",
        "`normalize_activations` is \"layer_norm\"; only what can be folded",
    ),
    (
        "saelens-topk",
        "cfg.json",
        "normalize_activations",
        "\"constant_norm_rescale\"",
        "is \"constant_norm_rescale\"; only what can be folded",
    ),
    (
        "saelens-topk",
        "cfg.json",
        "normalize_activations",
        "\"covariance_whitening\"",
        "is \"covariance_whitening\"; only what can be folded",
    ),
    ("saelens-topk", "cfg.json", "normalize_activations", "\"expected_average_only_in\"", "the scale is not in activation_scaler.json"),
    ("saelens-topk", "cfg.json", "normalize_activations", "true", "is \"expected_average_only_in\"; the scale is not in"),
    ("saelens-transcoder", "cfg.json", "normalize_activations", "\"expected_average_only_in\"", "the scale of a transcoder's output"),
    ("saelens-topk-checkpoint", "activation_scaler.json", "scaling_factor", "null", "the scale is not in activation_scaler.json"),
    ("saelens-topk", "cfg.json", "reshape_activations", "\"hook_q\"", "`reshape_activations` is \"hook_q\"; known are none and hook_z"),
    ("saelens-topk", "cfg.json", "activation_fn", "\"tanh-relu\"", "`activation_fn` is \"tanh-relu\""),
    ("saelens-gated", "cfg.json", "activation_fn", "\"topk\"", "only a standard architecture can have it"),
    ("saelens-topk", "cfg.json", "k", "null", "`k` is missing"),
    ("saelens-topk", "cfg.json", "architecture", "\"jumprelu\"", "`threshold` is missing"),
    ("saelens-jumprelu", "cfg.json", "architecture", "\"standard\"", "holds unknown arrays: threshold"),
    ("sparsify-topk", "cfg.json", "activation", "\"groupmax\"", "`activation` is \"groupmax\"; known is topk"),
    ("sparsify-topk", "cfg.json", "signed", "true", "`signed` is true"),
    ("sparsify-topk", "cfg.json", "k", "0", "`k` is missing"),
    ("sparsify-skip-transcoder", "cfg.json", "transcode", "false", "`transcode` is false; activations of one width"),
    ("dl-topk", "config.json", "trainer", "{}", "give the config.json whose trainer.dict_class"),
    (
        "dl-topk",
        "config.json",
        "trainer",
        "{\"dict_class\": \"IdentityDict\"}",
        "`trainer.dict_class` is \"IdentityDict\"; known are AutoEncoder",
    ),
    ("dl-gated", "config.json", "trainer", "{\"dict_class\": \"AutoEncoder\"}", "but ae.pt holds the arrays of GatedAutoEncoder"),
];

#[test]
fn configs_that_cannot_be_read_say_why() {
    let scratch = Scratch::new("configs");
    for (fixture, file, key, value, message) in CONFIGS {
        let folder = scratch.copy_of(fixture);
        let path = folder.join(file);
        let mut config = read_json(&path).expect("a config");
        config.insert((*key).into(), serde_json::from_str(value).expect("a value"));
        write_json(&path, &Value::Object(config)).expect("written");
        let error = refusal(&folder);
        assert!(error.contains(message), "{fixture}, {key} = {value}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let scratch = Scratch::new("files");
    assert!(refusal(&scratch.0).contains("no dictionary of a known format"));
    let folder = scratch.0.join("saelens");
    export(&topk(), Format::SaeLens, &folder, &Map::new()).expect("written");
    std::fs::write(folder.join("sae_weights.safetensors"), b"nonsense").expect("written");
    assert!(refusal(&folder).contains("not a .safetensors file"));
    let matrix = |rows, columns| Array::matrix(rows, columns, vec![0.5; rows * columns]);
    let vector = |count| Array::vector(vec![0.5; count]);
    let number = |value| Array { shape: vec![], values: vec![value] };
    let safetensors = |more: (&str, Array)| {
        let arrays = [("W_enc", matrix(6, 16)), ("W_dec", matrix(16, 6)), ("b_enc", vector(16)), ("b_dec", vector(6)), more];
        arrays::write_safetensors(&folder.join("sae_weights.safetensors"), &arrays).expect("written");
    };
    safetensors(("scaling_factor", vector(16)));
    assert!(refusal(&folder).contains("`finetuning_scaling_factor` is not 1; fold"));
    write_json(&folder.join("cfg.json"), &serde_json::json!({ "architecture": "batchtopk" })).expect("written");
    safetensors(("topk_threshold", number(0.0)));
    assert!(refusal(&folder).contains("`topk_threshold` is 0: training had not yet set it"));

    let folder = scratch.0.join("dl");
    let weights = |more: &[(&str, Array)]| {
        let arrays = [("W_enc", matrix(6, 16)), ("W_dec", matrix(16, 6)), ("b_enc", vector(16)), ("b_dec", vector(6)), ("k", number(3.0))];
        torch_file::write(&folder.join("ae.pt"), &[&arrays[..], more].concat(), &["k"]).expect("written");
    };
    let groups = |last: f32| Array::vector(vec![4.0, last]);
    weights(&[("group_sizes", groups(12.0)), ("threshold", number(-1.0))]);
    assert!(refusal(&folder).contains("`threshold` is -1: training had not yet set it"));
    weights(&[("group_sizes", groups(12.0))]);
    assert!(refusal(&folder).contains("`threshold` is missing: training had not yet set it"));
    weights(&[("group_sizes", groups(13.0)), ("threshold", number(0.5))]);
    assert!(refusal(&folder).contains("`group_sizes` add up to 17, but there are 16 latents"));
}

/// What formats say of model and hook goes along, and what describes the map does not.
#[test]
fn what_is_known_of_the_model_goes_along() {
    let scratch = Scratch::new("about");
    let about = |fixture: &str| import(&scratch.copy_of(fixture), None, &Device::flex()).expect("read").metadata;
    assert_eq!(about("saelens-old-topk")["hook_name"], "blocks.0.hook_resid_pre");
    assert!(!about("saelens-old-topk").contains_key("activation_fn_kwargs"));
    assert!(about("dl-topk").is_empty(), "{:?}", about("dl-topk"));
    assert!(about("sparsify-topk").is_empty(), "{:?}", about("sparsify-topk"));
    // Heads come as heads there: what was read from such a hook is written for it.
    let out = scratch.0.join("again");
    convert(&scratch.copy_of("saelens-hook-z"), Format::SaeLens, &out, &Device::flex()).expect("converted");
    assert_eq!(read_json(&out.join("cfg.json")).expect("a config")["reshape_activations"], "hook_z");
}

#[test]
fn a_conversion_is_whole_or_nothing() {
    let scratch = Scratch::new("convert");
    let (input, out) = (scratch.copy_of("saelens-topk"), scratch.0.join("new/dl"));
    let read = convert(&input, Format::DictionaryLearning, &out, &Device::flex()).expect("converted");
    assert_eq!((read.format, Format::of(&out)), (Format::SaeLens, Some(Format::DictionaryLearning)));
    let refuse = |to, out: &Path, message: &str| {
        let error = convert(&input, to, out, &Device::flex()).expect_err("an error").to_string();
        assert!(error.contains(message), "{error}");
    };
    refuse(Format::Sparsify, &out, "exists already");
    let other = scratch.0.join("other");
    refuse(Format::GemmaScope, &other, "other/params.npz: `name` is `topk`; gemma-scope can hold jumprelu");
    refuse(Format::Sparsify, Path::new("/"), "names no folder");
    // A file stands where the parent would be.
    refuse(Format::Sparsify, &out.join("ae.pt/sparsify"), "ae.pt/sparsify");
    let left: Vec<_> = std::fs::read_dir(&scratch.0).expect("a folder").map(|entry| entry.expect("a file").file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// A finished run is written for other tools with the threshold of its training, and their names of hooks where they have one.
#[test]
fn a_run_is_converted() {
    let scratch = Scratch::new("run");
    let kind = DictionaryKind::BatchTopK(BatchTopK { n: 16, k: 3, ..BatchTopK::default() });
    let mut dictionary = Dictionary::new(kind.clone(), Widths::same(6), 0, &Device::flex()).expect("a dictionary");
    dictionary.memory.set_threshold(0.4);
    let x = matrix(&read_json(&fixtures()[0].join("expected.json")).expect("expected numbers")["input"]);
    for (hook, theirs) in [("3.mlp_out", "blocks.3.hook_mlp_out"), ("3.mlp_in", "3.mlp_in")] {
        let (run, out) = (scratch.0.join(hook), scratch.0.join(format!("{hook}-lens")));
        let about = native::Saved {
            dictionary: kind.clone(),
            widths: (6, 6),
            threshold: None,
            model: "models/some".into(),
            fingerprint: "0".into(),
            hooks: vec![hook.into()],
            target: None,
        };
        native::save(&run, &dictionary, about).expect("saved");
        assert_eq!(convert(&run, Format::SaeLens, &out, &Device::flex()).expect("converted").format, Format::Sememe);
        let again = import(&out, None, &Device::flex()).expect("read");
        assert_eq!((&again.metadata["model_name"], &again.metadata["hook_name"]), (&"models/some".into(), &theirs.into()));
        assert_eq!(computed(&again.dictionary, x.clone()).1, computed(&dictionary, x.clone()).1);
    }
}
