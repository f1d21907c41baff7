//! Documents of the user's own, one after the other from .txt, .jsonl, .jsonl.gz and .parquet files, never a whole file of many in memory.
//!
//! To add a format: its own file with an `open`, and one line in `KINDS`.

mod json_lines;
mod parquet;
mod plain;

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The key or column that is read when none is given.
const DEFAULT_KEY: &str = "text";

/// One document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its text; may be empty.
    pub text: String,
    /// The file that holds it.
    pub file: PathBuf,
    /// Where in the file: the line of a .jsonl file (from 1), the row of a .parquet file (from 0), 0 in a .txt file.
    pub row: usize,
}

/// Why text could not be read: always with the file, and with line or row where there is one.
#[derive(Debug, Error)]
pub enum TextError {
    /// Nothing to read.
    #[error("no files of text were given; give files or folders ({})", endings())]
    NoFiles,
    /// A folder without any text.
    #[error("{}: the folder holds no file of a known kind ({}); give another", .0.display(), endings())]
    EmptyFolder(PathBuf),
    /// A file of another kind.
    #[error("{}: unknown kind of file; known are {}", .0.display(), endings())]
    UnknownEnding(PathBuf),
    /// It cannot be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its content is not what its name says.
    #[error("{path}: {message}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What, where and what to do.
        message: String,
    },
}

/// What a format hands up: documents of one file, in order.
trait Reader: Send {
    /// The next document's row and text, or what is wrong and where.
    fn next(&mut self) -> Option<Result<(usize, String), String>>;

    /// Passes over up to `count` documents without looking into them; how many there were.
    fn skip(&mut self, count: usize) -> Result<usize, String>;

    /// Bytes of the file that have been used up.
    fn bytes_read(&self) -> u64;
}

/// Opens a file, whose documents lie under a key.
type Open = fn(&Path, key: &str) -> Result<Box<dyn Reader>, String>;

/// A format.
struct Kind {
    ending: &'static str,
    open: Open,
}

/// Every format.
static KINDS: [Kind; 4] = [
    Kind { ending: ".txt", open: plain::open },
    Kind { ending: ".jsonl", open: json_lines::open },
    Kind { ending: ".jsonl.gz", open: json_lines::open_compressed },
    Kind { ending: ".parquet", open: parquet::open },
];

fn endings() -> String {
    KINDS.iter().map(|kind| kind.ending).collect::<Vec<_>>().join(", ")
}

fn kind(path: &Path) -> Option<&'static Kind> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    KINDS.iter().find(|kind| name.ends_with(kind.ending))
}

/// Opens files and folders as one stream of documents, in the order given. A folder stands for all files of known endings in it
/// and in its folders, by name; hidden ones and links to folders are left out. `key` is the key of a JSON line or the column of a
/// Parquet file that holds the text (`text` when `None`).
///
/// # Errors
/// No files, or a path that is missing or of an unknown kind. What is wrong inside a file shows when it is read.
pub fn open(paths: &[PathBuf], key: Option<&str>) -> Result<Documents, TextError> {
    let mut files = Vec::new();
    for path in paths {
        let before = files.len();
        collect(path, &mut files)?;
        if files.len() == before {
            return Err(TextError::EmptyFolder(path.clone()));
        }
    }
    if files.is_empty() {
        return Err(TextError::NoFiles);
    }
    let mut sizes = Vec::with_capacity(files.len());
    for path in &files {
        sizes.push(fs::metadata(path).map_err(|source| TextError::Io { path: path.clone(), source })?.len());
    }
    Ok(Documents { files, sizes, key: key.unwrap_or(DEFAULT_KEY).to_string(), begun: 0, reader: None })
}

/// Adds the files that `path` stands for.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), TextError> {
    let failed = |source| TextError::Io { path: path.into(), source };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        if kind(path).is_none() {
            return Err(TextError::UnknownEnding(path.into()));
        }
        files.push(path.into());
        return Ok(());
    }
    let mut entries = fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.retain(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let inner = entry.path();
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        if is_folder || (kind(&inner).is_some() && inner.is_file()) {
            collect(&inner, files)?;
        }
    }
    Ok(())
}

/// A stream of documents; after an error it goes on with the next file.
pub struct Documents {
    files: Vec<PathBuf>,
    /// Bytes of each file.
    sizes: Vec<u64>,
    key: String,
    /// Files that have been begun; the last of them is open while `reader` is.
    begun: usize,
    reader: Option<Box<dyn Reader>>,
}

impl Documents {
    /// The files, in the order in which they are read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Bytes of all files together, as they lie on disk.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Bytes of what has been read so far, of [`Documents::bytes`].
    pub fn bytes_read(&self) -> u64 {
        match &self.reader {
            Some(reader) => self.sizes[..self.begun - 1].iter().sum::<u64>() + reader.bytes_read(),
            None => self.sizes[..self.begun].iter().sum(),
        }
    }

    /// Passes over up to `count` documents without parsing them, to go on where an earlier reader stopped; how many there were.
    ///
    /// # Errors
    /// A file that cannot be opened or is damaged.
    pub fn skip_documents(&mut self, count: usize) -> Result<usize, TextError> {
        let mut skipped = 0;
        while skipped < count {
            let Some(opened) = self.opened() else { break };
            let more = opened.and_then(|reader| reader.skip(count - skipped)).map_err(|message| self.failure(message))?;
            if more == 0 {
                self.reader = None;
            }
            skipped += more;
        }
        Ok(skipped)
    }

    /// The reader of the file at hand, or of the next; `None` after the last.
    fn opened(&mut self) -> Option<Result<&mut Box<dyn Reader>, String>> {
        if self.reader.is_none() {
            let path = self.files.get(self.begun)?;
            self.begun += 1;
            let kind = kind(path)?;
            match (kind.open)(path, &self.key) {
                Ok(reader) => self.reader = Some(reader),
                Err(message) => return Some(Err(message)),
            }
        }
        self.reader.as_mut().map(Ok)
    }

    /// The error of the file at hand, which is left.
    fn failure(&mut self, message: String) -> TextError {
        self.reader = None;
        TextError::Content { path: self.files[self.begun - 1].clone(), message }
    }
}

impl Iterator for Documents {
    type Item = Result<Document, TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.opened()?.map(|reader| reader.next()) {
                Ok(Some(Ok((row, text)))) => return Some(Ok(Document { text, file: self.files[self.begun - 1].clone(), row })),
                Ok(Some(Err(message))) | Err(message) => return Some(Err(self.failure(message))),
                Ok(None) => self.reader = None,
            }
        }
    }
}

/// The text of bytes, without a byte-order mark; the error names the byte.
fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    let mut text = String::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 at byte {} (from 0); convert it to UTF-8", error.utf8_error().valid_up_to()))?;
    if text.starts_with(MARK) {
        text.drain(..MARK.len_utf8());
    }
    Ok(text)
}

/// The byte-order mark.
const MARK: char = '\u{feff}';
