//! Documents that pyarrow and Python wrote (`text/documents.py`) come back as they went in, and bad files get one clear line.

use std::fs;
use std::path::{Path, PathBuf};

use sememe_run::text::{Document, TextError, open};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/text").join(name)
}

fn texts() -> Vec<String> {
    (0..100).map(|i| format!("row {i}{}", if i % 7 == 0 { " é" } else { "" })).collect()
}

fn read(paths: &[PathBuf], key: Option<&str>) -> Result<Vec<Document>, TextError> {
    open(paths, key)?.collect()
}

fn scratch(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    for (file, bytes) in files {
        let path = folder.join(file);
        let made = fs::create_dir_all(path.parent().unwrap_or(&folder)).and_then(|()| fs::write(&path, bytes));
        assert!(made.is_ok(), "{}: {made:?}", path.display());
    }
    folder
}

const FULL: [&str; 7] =
    ["lines.jsonl", "lines.jsonl.gz", "plain.parquet", "snappy.parquet", "zstd.parquet", "gzip.parquet", "required.parquet"];

#[test]
fn every_kind_of_file_is_read() {
    for name in FULL {
        let found = read(&[fixture(name)], None).unwrap_or_else(|error| panic!("{error}"));
        let first = usize::from(name.contains("jsonl"));
        for (i, (document, text)) in found.iter().zip(texts()).enumerate() {
            assert_eq!((&document.text, document.row, &document.file), (&text, i + first, &fixture(name)), "{name}");
        }
        assert_eq!(found.len(), 100, "{name}");
    }
    let nested = read(&[fixture("nested.parquet")], Some("meta.text")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(nested.iter().map(|document| document.text.clone()).collect::<Vec<_>>(), texts()[..3]);
}

#[test]
fn skipping_is_reading_without_looking() {
    for name in FULL {
        for count in [0, 1, 29, 30, 31, 64, 65, 99, 100] {
            for read_before in [0, 1] {
                let mut documents = open(&[fixture(name), fixture("lines.jsonl")], None).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(documents.by_ref().take(read_before).count(), read_before);
                let skipped = documents.skip_documents(count).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(skipped, count, "{name}");
                let next = documents.next().and_then(Result::ok).map(|document| document.text);
                assert_eq!(next.as_ref(), texts().get((count + read_before) % 100), "{name} after {read_before} + {count}");
            }
        }
        let mut documents = open(&[fixture(name)], None).unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(documents.skip_documents(500), Ok(100)), "{name}");
        assert!(documents.next().is_none() && documents.bytes_read() == documents.bytes(), "{name}");
    }
}

/// A folder gives its files by name, also those of its folders, but no hidden or foreign ones; progress ends at all bytes.
#[test]
fn a_folder_is_a_stream() {
    let folder = scratch(
        "text-folder",
        &[
            ("b.txt", "two\r\n".as_bytes()),
            ("a.TXT", "\u{feff}one".as_bytes()),
            ("c/1.jsonl", b"\n{\"text\": \"three\"}\n\n  \n{\"x\": [1, {}], \"text\": \"fo\\u0075r\"}"),
            ("c/notes.md", b"no"),
            (".hidden/x.txt", b"no"),
            ("z.txt", b""),
        ],
    );
    let mut documents = open(&[folder], None).unwrap_or_else(|error| panic!("{error}"));
    let (mut found, mut before) = (Vec::new(), 0);
    while let Some(document) = documents.next() {
        let document = document.unwrap_or_else(|error| panic!("{error}"));
        assert!(documents.bytes_read() >= before);
        before = documents.bytes_read();
        found.push((document.text, document.row));
    }
    let expected = [("one", 0), ("two\r\n", 0), ("three", 2), ("four", 5), ("", 0)];
    assert_eq!(found, expected.map(|(text, row)| (text.to_string(), row)));
    assert_eq!(before, documents.bytes());
}

/// The error of reading the files, which must be one line that holds all of `parts`.
fn refused(paths: &[PathBuf], key: Option<&str>, parts: &[&str]) {
    let Err(error) = read(paths, key) else { panic!("{paths:?} was read") };
    let said = error.to_string();
    assert!(parts.iter().all(|part| said.contains(part)) && !said.contains('\n'), "{said}");
}

#[test]
fn bad_files_get_one_clear_line() {
    let whole = fs::read(fixture("snappy.parquet")).unwrap_or_else(|error| panic!("{error}"));
    let packed = fs::read(fixture("lines.jsonl.gz")).unwrap_or_else(|error| panic!("{error}"));
    let folder = scratch(
        "text-bad",
        &[
            ("latin.txt", b"caf\xe9"),
            ("broken.jsonl", b"{\"text\": \"a\"}\n{\"text\": \"b\""),
            ("after.jsonl", b"{\"text\": \"a\"} 1\n"),
            ("latin.jsonl", b"{\"text\": \"caf\xe9\"}\n"),
            ("list.jsonl", b"[1]\n"),
            ("number.jsonl", b"{\"text\": 7}\n"),
            ("key.jsonl", b"{\"body\": \"a\", \"id\": 1}\n"),
            ("cut.jsonl.gz", &packed[..packed.len() / 2]),
            ("no.jsonl.gz", b"{\"text\": \"a\"}\n"),
            ("cut.parquet", &whole[..whole.len() / 2]),
            ("empty.parquet", b""),
            ("no.parquet", b"{\"text\": \"a\"}\n"),
            ("data.csv", b"a,b\n"),
            ("empty/notes.md", b""),
        ],
    );
    let at = |name: &str| [folder.join(name)];
    refused(&[], None, &["no files", ".jsonl.gz"]);
    refused(&at("absent.txt"), None, &["absent.txt", "No such file"]);
    refused(&at("data.csv"), None, &["data.csv", "unknown kind", ".parquet"]);
    refused(&at("empty"), None, &["empty", "no file of a known kind"]);
    refused(&at("latin.txt"), None, &["latin.txt", "not UTF-8 at byte 3"]);
    refused(&at("broken.jsonl"), None, &["broken.jsonl", "line 2", "column 12", "EOF"]);
    refused(&at("after.jsonl"), None, &["line 1", "column 15"]);
    refused(&at("latin.jsonl"), None, &["line 1", "byte 13"]);
    refused(&at("list.jsonl"), None, &["line 1", "an object"]);
    refused(&at("number.jsonl"), None, &["line 1", "a number", "expected a string"]);
    refused(&at("key.jsonl"), None, &["line 1", "no key `text`", "`body`, `id`"]);
    refused(&at("key.jsonl"), Some("id"), &["`id` is a number"]);
    refused(&at("cut.jsonl.gz"), None, &["cut.jsonl.gz", "line ", "cut off"]);
    refused(&at("no.jsonl.gz"), None, &["no.jsonl.gz", "gzip"]);
    for name in ["cut.parquet", "empty.parquet", "no.parquet"] {
        refused(&at(name), None, &[name, "not a Parquet file, or damaged"]);
    }
    refused(&[fixture("plain.parquet")], Some("body"), &["no column `body`", "`id`, `text`"]);
    refused(&[fixture("plain.parquet")], Some("id"), &["column `id` is INT64", "strings"]);
    refused(&[fixture("awkward.parquet")], None, &["row 1 (from 0)", "null"]);
    refused(&[fixture("awkward.parquet")], Some("tags.list.element"), &["a list"]);
    refused(&[fixture("bytes.parquet")], None, &["row 1 (from 0)", "not UTF-8 at byte 0"]);
    refused(&[fixture("brotli.parquet")], None, &["brotli", "snappy, zstd or gzip"]);
}

/// Bytes changed at random make other text or an error, but never a crash.
#[test]
fn damaged_parquet_never_crashes() {
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for name in ["plain.parquet", "snappy.parquet", "zstd.parquet", "gzip.parquet"] {
        let whole = fs::read(fixture(name)).unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..200 {
            let mut bytes = whole.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            let folder = scratch("text-damaged", &[("x.parquet", &bytes)]);
            let documents = open(&[folder], None).map(|documents| documents.take(1000).count());
            assert!(documents.is_ok_and(|count| count <= 102), "{name}: more rows than there were");
        }
    }
}
