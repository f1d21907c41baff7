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
    assert!(all.len() >= 20, "{} fixtures", all.len());
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
    let kind = sememe::dictionary::DictionaryKind::BatchTopK(BatchTopK { n: 16, k: 3, ..BatchTopK::default() });
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

#[test]
fn what_cannot_be_read_says_why() {
    let out = std::env::temp_dir().join(format!("sememe-interop-bad-{}", std::process::id()));
    let kind = sememe::dictionary::DictionaryKind::TopK(TopK { n: 16, k: 3, ..TopK::default() });
    let dictionary = Dictionary::new(kind, Widths::same(6), 0, &Device::flex()).expect("a dictionary");
    export(&dictionary, Format::SaeLens, &out, &Map::new()).expect("written");
    let refuse = |key: &str, value: Value, message: &str| {
        let path = out.join("cfg.json");
        let whole = read_json(&path).expect("a config");
        let mut changed = whole.clone();
        changed.insert(key.into(), value);
        write_json(&path, &Value::Object(changed)).expect("written");
        let error = import(&out, None, &Device::flex()).expect_err("an error").to_string();
        assert!(error.contains(message), "{error}");
        write_json(&path, &Value::Object(whole)).expect("written");
    };
    refuse("architecture", "temporal".into(), "`architecture` is \"temporal\"; known are standard");
    refuse("normalize_activations", "layer_norm".into(), "`normalize_activations` is \"layer_norm\"");
    refuse("k", Value::Null, "`k` is missing");
    refuse("architecture", "jumprelu".into(), "`threshold` is missing");
    std::fs::write(out.join("sae_weights.safetensors"), b"nonsense").expect("written");
    assert!(import(&out, None, &Device::flex()).expect_err("an error").to_string().contains("not a .safetensors file"));
    std::fs::remove_dir_all(&out).unwrap_or_default();
    assert!(import(&out, None, &Device::flex()).expect_err("an error").to_string().contains("no dictionary of a known format"));
}
