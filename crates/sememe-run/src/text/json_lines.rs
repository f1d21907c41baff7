//! JSON lines, plain or gzipped: a line is one document, an object whose `key` holds the text; blank lines are none.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::{MARK, Reader};

/// Bytes asked of the disk at a time.
const BUFFER: usize = 1 << 18;

struct JsonLines {
    lines: Box<dyn BufRead + Send>,
    key: String,
    /// Lines read.
    row: usize,
    buffer: Vec<u8>,
    bytes_read: Arc<AtomicU64>,
}

pub(super) fn open(path: &Path, key: &str) -> Result<Box<dyn Reader>, String> {
    start(path, key, |file| Box::new(BufReader::with_capacity(BUFFER, file)))
}

pub(super) fn open_compressed(path: &Path, key: &str) -> Result<Box<dyn Reader>, String> {
    start(path, key, |file| {
        let file = BufReader::with_capacity(BUFFER, file);
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file)))
    })
}

fn start(path: &Path, key: &str, lines: impl Fn(Counted) -> Box<dyn BufRead + Send>) -> Result<Box<dyn Reader>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let bytes_read = Arc::new(AtomicU64::new(0));
    let lines = lines(Counted { file, bytes_read: bytes_read.clone() });
    Ok(Box::new(JsonLines { lines, key: key.into(), row: 0, buffer: Vec::new(), bytes_read }))
}

/// A file that tells how far it has been read, from underneath whatever unpacks it.
struct Counted {
    file: File,
    bytes_read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl JsonLines {
    /// Reads the next line that is not blank into the buffer; false at the end.
    fn advance(&mut self) -> Result<bool, String> {
        loop {
            self.buffer.clear();
            self.row += 1;
            let at = |error: io::Error| match error.kind() {
                io::ErrorKind::UnexpectedEof => format!("line {}: the file ends within it; it is cut off or damaged", self.row),
                _ => format!("line {}: {error}", self.row),
            };
            if self.lines.read_until(b'\n', &mut self.buffer).map_err(at)? == 0 {
                return Ok(false);
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    fn parse(&self) -> Result<String, String> {
        let line = std::str::from_utf8(&self.buffer)
            .map_err(|error| format!("not UTF-8 at its byte {} (from 0); convert the file to UTF-8", error.valid_up_to()))?;
        let line = if self.row == 1 { line.trim_start_matches(MARK) } else { line };
        let mut json = serde_json::Deserializer::from_str(line);
        let picked = Pick(&self.key).deserialize(&mut json).and_then(|picked| json.end().map(|()| picked));
        let broken = |error: serde_json::Error| {
            // The parser sees one line and counts it as its first.
            let message = error.to_string();
            let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
            format!("not a JSON object at column {}: {message}", error.column())
        };
        match picked.map_err(broken)? {
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(format!("`{}` is {}, expected a string", self.key, kind_of(&other))),
            None => Err(format!("no key `{}`; there are {}; name the one with the text", self.key, keys(line))),
        }
    }
}

impl Reader for JsonLines {
    fn next(&mut self) -> Option<Result<(usize, String), String>> {
        match self.advance() {
            Ok(false) => None,
            Err(message) => Some(Err(message)),
            Ok(true) => Some(self.parse().map(|text| (self.row, text)).map_err(|message| format!("line {}: {message}", self.row))),
        }
    }

    fn skip(&mut self, count: usize) -> Result<usize, String> {
        for skipped in 0..count {
            if !self.advance()? {
                return Ok(skipped);
            }
        }
        Ok(count)
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The keys of an object that has been parsed before.
fn keys(line: &str) -> String {
    let object: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap_or_default();
    object.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// The value at one key of an object; the others are passed over without being built.
struct Pick<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Pick<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pick<'_> {
    type Value = Option<Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if key == self.0 {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
