//! Tables of numbers as text: separated by commas, semicolons, tabs or blanks, with or without a header line.

use super::Raw;

/// The table; a first line with anything that is no number is a header.
pub(super) fn read(bytes: &[u8]) -> Result<Raw, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8 text at byte {}", error.valid_up_to()))?;
    let first = text.lines().next().unwrap_or("");
    let delimiter = [b',', b';', b'\t', b' '].into_iter().find(|&d| first.contains(char::from(d))).unwrap_or(b',');
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).delimiter(delimiter).flexible(true).trim(csv::Trim::All).from_reader(bytes);
    let (mut names, mut values, mut width, mut rows) = (None, Vec::new(), None, 0);
    for (line, record) in reader.records().enumerate() {
        let record = record.map_err(|error| error.to_string())?;
        // Blanks in a row separate as one.
        let fields: Vec<&str> =
            if delimiter == b' ' { record.iter().filter(|field| !field.is_empty()).collect() } else { record.iter().collect() };
        let parsed: Vec<Option<f64>> = fields.iter().map(|field| field.parse::<f64>().ok()).collect();
        if line == 0 && parsed.iter().any(Option::is_none) {
            width = Some(fields.len());
            names = Some(fields.iter().map(ToString::to_string).collect());
            continue;
        }
        let expected = *width.get_or_insert(fields.len());
        if fields.len() != expected {
            return Err(format!("line {} has {} fields, the first has {expected}", line + 1, fields.len()));
        }
        for (column, value) in parsed.into_iter().enumerate() {
            values.push(value.ok_or_else(|| format!("line {}, column {}: `{}` is no number", line + 1, column + 1, fields[column]))?);
        }
        rows += 1;
    }
    Ok(Raw { shape: vec![rows, width.unwrap_or(0)], values, names })
}
