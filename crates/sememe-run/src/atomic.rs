//! Files that are either old or new, never half written: a temporary file beside the target, flushed, then renamed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes `bytes` to `path`; a reader, also after a crash, sees the old content or the new.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let temporary = folder.join(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
    let result = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_folder(folder)
    })();
    if result.is_err() {
        // The error that matters is the one above; a leftover part is harmless.
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Makes renames in `folder` last through a power cut, where the system can.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
