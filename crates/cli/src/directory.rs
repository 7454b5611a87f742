//! Classifies the contents of a directory by file names and the format file, before a command
//! opens or creates anything there.
use anyhow::{Context, Result, bail};
use std::{fs, io, path::Path};
use terrace_format::{FileName, LEVELS};
use terrace_storage::{
    backends::raw::{DATA, is_device},
    read_small_file,
};

/// The contents of a directory.
#[derive(Debug, PartialEq, Eq)]
pub enum Holds {
    /// The directory is empty or missing, so a store may be created.
    Nothing,
    /// A store with a format file, and the file's text.
    MarkedStore(String),
    /// A store in LevelDB's format.
    LevelDbStore,
    /// A RocksDB store.
    RocksDbStore,
    /// Files of another program, for example the file with this name.
    Others(String),
}

/// Classifies the directory `path`.
pub fn look(path: &Path) -> Result<Holds> {
    let named = || path.display().to_string();
    let names = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Holds::Nothing),
        entries => entries.with_context(named)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())),
    };
    let names = names.collect::<io::Result<Vec<String>>>().with_context(named)?;
    let has = |wanted: FileName| names.contains(&wanted.to_string());
    if has(FileName::FormatFile) {
        let text = read_small_file(&path.join(FileName::FormatFile.to_string())).with_context(named)?;
        return Ok(Holds::MarkedStore(String::from_utf8_lossy(&text).into_owned()));
    }
    if names.iter().any(|name| name == "IDENTITY" || name.starts_with("OPTIONS-")) {
        return Ok(Holds::RocksDbStore);
    }
    if has(FileName::Current) {
        return Ok(Holds::LevelDbStore);
    }
    let ours = |name: &String| {
        let known = ["lost", "lost+found", DATA].contains(&name.as_str());
        known || FileName::parse(name).is_some() || is_level(path, name)
    };
    Ok(names.iter().find(|name| !ours(name)).map_or(Holds::Nothing, |name| Holds::Others(name.clone())))
}

/// Returns whether the directory entry `name` is a level folder of a store, such as `L0`. A level
/// folder contains only directory tables (tables that are stored as directories).
fn is_level(path: &Path, name: &str) -> bool {
    let is_table = |entry: io::Result<fs::DirEntry>| {
        let named = |entry: fs::DirEntry| FileName::parse(&format!("{}.ldb", entry.file_name().display()));
        entry.is_ok_and(|entry| matches!(named(entry), Some(FileName::Table(_))))
    };
    let level = name.strip_prefix('L').and_then(|level| level.parse().ok());
    level.is_some_and(|level: usize| level < LEVELS)
        && fs::read_dir(path.join(name)).is_ok_and(|mut inside| inside.all(is_table))
}

/// Fails if the directory belongs to another program. The error suggests a remedy.
pub fn refuse_foreign(path: &Path) -> Result<()> {
    if is_device(path) {
        return Ok(()); // if the device has no store, the open reports this
    }
    match look(path)? {
        Holds::RocksDbStore => bail!(
            "{} is a store of RocksDB's, which Terrace does not open; \
             export it with RocksDB's `ldb dump --hex` and load that into a new directory",
            path.display()
        ),
        Holds::Others(name) => bail!(
            "{} contains other files but no store, such as {name}; choose an empty or a new directory",
            path.display()
        ),
        Holds::Nothing | Holds::MarkedStore(_) | Holds::LevelDbStore => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_whose_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(look(&path.join("absent")).unwrap(), Holds::Nothing);
        for (name, holds) in [
            ("lost+found", Holds::Nothing),
            ("000007.ldb", Holds::Nothing),
            ("DATA", Holds::Nothing),
            ("notes.txt", Holds::Others("notes.txt".into())),
            ("CURRENT", Holds::LevelDbStore),
            ("OPTIONS-000007", Holds::RocksDbStore),
            ("TERRACE", Holds::MarkedStore(String::new())),
        ] {
            fs::write(path.join(name), "").unwrap();
            assert_eq!(look(path).unwrap(), holds, "{name}");
        }
        let other = tempfile::tempdir().unwrap();
        fs::create_dir_all(other.path().join("L1/000010")).unwrap();
        assert_eq!(look(other.path()).unwrap(), Holds::Nothing);
        fs::create_dir(other.path().join("L1/photos")).unwrap();
        assert_eq!(look(other.path()).unwrap(), Holds::Others("L1".into()));
    }
}
