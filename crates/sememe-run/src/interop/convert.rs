//! From one format into another, whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;

use super::{Format, Imported, InteropError, export, import};

/// Reads the dictionary at `input`, whose format its files show, and writes it in format `to` into the new folder `out`.
///
/// The folder is filled under another name and then renamed, so that it is there with all its files or not at all.
///
/// # Errors
/// What cannot be read, what `to` cannot hold, or that there is something at `out` already.
pub fn convert(input: &Path, to: Format, out: &Path, device: &Device) -> Result<Imported, InteropError> {
    let content = |message: &str| InteropError::Content { path: out.into(), message: message.into() };
    let name = out.file_name().ok_or_else(|| content("names no folder; give one that does not exist yet"))?;
    if out.symlink_metadata().is_ok() {
        return Err(content("exists already; give a folder that does not exist yet"));
    }
    let imported = import(input, None, device)?;
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let part = folder.join(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
    let io = |source| InteropError::Io { path: out.into(), source };
    let written = export(&imported.dictionary, to, &part, &imported.metadata).map_err(|error| error.moved(&part, out)).and_then(|()| {
        fs::rename(&part, out).map_err(io)?;
        crate::atomic::sync_folder(folder).map_err(io)
    });
    if let Err(error) = written {
        // The error that matters is this one; a leftover part is harmless.
        let _ = fs::remove_dir_all(&part);
        return Err(error);
    }
    Ok(imported)
}

impl InteropError {
    /// The same error of a file that is to lie in `to` and not in `from`.
    fn moved(mut self, from: &Path, to: &Path) -> Self {
        let (Self::Io { path, .. } | Self::Content { path, .. } | Self::Unsupported { path, .. } | Self::Dictionary { path, .. }) =
            &mut self;
        *path = match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.into(),
            Ok(rest) => to.join(rest),
            Err(_) => PathBuf::from(&*path),
        };
        self
    }
}
