//! Parquet files, packed with Snappy, Zstandard, gzip or not at all: a row is one document, its text in the column `key`.
//!
//! Only that column is read, a page at a time.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

use super::{Reader, utf8};

/// Rows taken from the decoder at a time.
const ROWS: usize = 64;

struct Parquet {
    file: SerializedFileReader<File>,
    bytes: u64,
    key: String,
    column: usize,
    /// The level at which the column holds a value; below it, it is null.
    present: i16,
    rows: usize,
    /// Rows handed up or skipped.
    row: usize,
    /// The next group of rows.
    group: usize,
    pages: Option<ColumnReaderImpl<ByteArrayType>>,
    /// Rows that have been decoded, last first.
    ready: Vec<Option<ByteArray>>,
}

pub(super) fn open(path: &Path, key: &str) -> Result<Box<dyn Reader>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    let file = guarded(|| SerializedFileReader::new(file))?;
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
    let column = names.iter().position(|name| name == key).ok_or_else(|| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("no column `{key}`; there are {}; name the one with the text", names.join(", "))
    })?;
    let description = schema.column(column);
    if description.physical_type() != Type::BYTE_ARRAY || description.max_rep_level() > 0 {
        let what = if description.max_rep_level() > 0 { "a list".into() } else { description.physical_type().to_string() };
        return Err(format!("column `{key}` is {what}, expected strings"));
    }
    let rows = usize::try_from(file.metadata().file_metadata().num_rows()).map_err(|_| damaged("a negative number of rows"))?;
    let present = description.max_def_level();
    Ok(Box::new(Parquet { file, bytes, key: key.into(), column, present, rows, row: 0, group: 0, pages: None, ready: Vec::new() }))
}

fn damaged(what: &str) -> String {
    format!("not a Parquet file, or damaged ({what})")
}

/// What `read` gives; the decoder's errors, and its panics over damaged bytes, become one line.
fn guarded<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::NYI(what))) => Err(format!("{what}; pack the file with snappy, zstd or gzip")),
        Ok(Err(ParquetError::General(what))) if what.contains("Disabled feature") => {
            Err(format!("{what}; pack the file with snappy, zstd or gzip"))
        }
        Ok(Err(error)) => Err(damaged(&error.to_string())),
        Err(_) => Err(damaged("its pages contradict each other")),
    }
}

impl Parquet {
    /// The pages of the next group of rows; false after the last.
    fn begin_group(&mut self) -> Result<bool, String> {
        if self.group == self.file.num_row_groups() {
            return Ok(false);
        }
        match guarded(|| self.file.get_row_group(self.group)?.get_column_reader(self.column))? {
            ColumnReader::ByteArrayColumnReader(pages) => self.pages = Some(pages),
            _ => return Err(damaged("a group of rows contradicts the schema")),
        }
        self.group += 1;
        Ok(true)
    }

    /// Decodes some rows into `ready`; false after the last.
    fn fill(&mut self) -> Result<bool, String> {
        while self.ready.is_empty() {
            let Some(pages) = &mut self.pages else {
                if self.begin_group()? {
                    continue;
                }
                return Ok(false);
            };
            let (mut levels, mut values) = (Vec::new(), Vec::new());
            let wanted_levels = (self.present > 0).then_some(&mut levels);
            guarded(|| pages.read_records(ROWS, wanted_levels, None, &mut values).map(|_| ())).map_err(|what| self.at(&what))?;
            if self.present == 0 {
                self.ready = values.into_iter().map(Some).collect();
            } else {
                let present = self.present;
                let mut values = values.into_iter();
                self.ready = levels.into_iter().map(|level| if level == present { values.next() } else { None }).collect();
            }
            self.ready.reverse();
            if self.ready.is_empty() {
                self.pages = None;
            }
        }
        Ok(true)
    }

    fn at(&self, what: &str) -> String {
        format!("row {} (from 0): {what}", self.row)
    }

    fn text(&self, value: Option<ByteArray>) -> Result<String, String> {
        match value {
            Some(bytes) => utf8(bytes.data().to_vec()).map_err(|what| self.at(&what)),
            None => Err(self.at(&format!("`{}` is null, expected a string", self.key))),
        }
    }
}

impl Reader for Parquet {
    fn next(&mut self) -> Option<Result<(usize, String), String>> {
        match self.fill() {
            Err(message) => Some(Err(message)),
            Ok(false) if self.row < self.rows => Some(Err(damaged(&format!("it ends after row {} of {}", self.row, self.rows)))),
            Ok(false) => None,
            Ok(true) => {
                let value = self.ready.pop()?;
                let text = self.text(value);
                self.row += 1;
                Some(text.map(|text| (self.row - 1, text)))
            }
        }
    }

    fn skip(&mut self, count: usize) -> Result<usize, String> {
        let mut left = count;
        while left > 0 {
            let decoded = self.ready.len().min(left);
            self.ready.truncate(self.ready.len() - decoded);
            self.row += decoded;
            left -= decoded;
            let Some(pages) = &mut self.pages else {
                if left > 0 && !self.begin_group()? {
                    break;
                }
                continue;
            };
            if left > 0 {
                let skipped = guarded(|| pages.skip_records(left)).map_err(|what| self.at(&what))?;
                if skipped == 0 {
                    self.pages = None;
                }
                self.row += skipped;
                left -= skipped;
            }
        }
        Ok(count - left)
    }

    fn bytes_read(&self) -> u64 {
        // The pages of one column lie scattered over the file: rows say better how far it is.
        (self.bytes as f64 * (self.row as f64 / self.rows.max(1) as f64)) as u64
    }
}
