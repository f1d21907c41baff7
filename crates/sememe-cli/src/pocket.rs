//! The pocket model and its text, which come with the program: a quickstart needs no download.

use std::path::Path;

use anyhow::{Context as _, Result};

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../assets/pocket/", $name)).as_slice())),+]
    };
}

/// Its folder, file by file.
const FILES: &[(&str, &[u8])] = files![
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "text/1800_john_adams_f.txt",
    "text/1822_james_monroe_dr.txt",
    "text/1844_john_tyler_wd.txt",
    "text/1866_andrew_johnson_nu.txt",
    "text/1888_grover_cleveland_d.txt",
    "text/1910_william_h_taft_r.txt",
    "text/1932_herbert_hoover_r.txt",
    "text/1954_dwight_d_eisenhower_r.txt",
    "text/1975_gerald_r_ford_r.txt",
    "text/1997_william_j_clinton_d.txt",
    "text/2019_donald_j_trump_r.txt",
    "text/moby-dick-133-135.txt",
];

/// Writes the model into `folder`, and its text into `folder/text`.
pub fn write(folder: &Path) -> Result<()> {
    let text = folder.join("text");
    std::fs::create_dir_all(&text).with_context(|| text.display().to_string())?;
    for (name, bytes) in FILES {
        let path = folder.join(name);
        sememe_run::atomic::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_listed_and_the_whole_is_small() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/pocket"));
        let names = |folder: &Path, prefix: &str| -> Vec<String> {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_file());
            entries.map(|entry| format!("{prefix}{}", entry.file_name().to_string_lossy())).filter(|name| name != "README.md").collect()
        };
        let mut there = [names(folder, ""), names(&folder.join("text"), "text/")].concat();
        let mut listed: Vec<String> = FILES.iter().map(|(name, _)| (*name).to_string()).collect();
        there.sort();
        listed.sort();
        assert_eq!(there, listed);
        let model: usize = FILES.iter().filter(|(name, _)| !name.starts_with("text/")).map(|(_, bytes)| bytes.len()).sum();
        assert!(model <= 3_000_000, "{model} bytes");
    }
}
