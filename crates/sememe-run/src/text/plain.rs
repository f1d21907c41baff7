//! Text files: a file is one document, UTF-8.

use std::path::{Path, PathBuf};

use super::{Reader, utf8};

struct Plain {
    path: PathBuf,
    bytes: u64,
    is_done: bool,
}

pub(super) fn open(path: &Path, _key: &str) -> Result<Box<dyn Reader>, String> {
    let bytes = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    Ok(Box::new(Plain { path: path.into(), bytes, is_done: false }))
}

impl Reader for Plain {
    fn next(&mut self) -> Option<Result<(usize, String), String>> {
        if std::mem::replace(&mut self.is_done, true) {
            return None;
        }
        let bytes = std::fs::read(&self.path).map_err(|error| error.to_string());
        Some(bytes.and_then(utf8).map(|text| (0, text)))
    }

    fn skip(&mut self, _count: usize) -> Result<usize, String> {
        Ok(usize::from(!std::mem::replace(&mut self.is_done, true)))
    }

    fn bytes_read(&self) -> u64 {
        if self.is_done { self.bytes } else { 0 }
    }
}
