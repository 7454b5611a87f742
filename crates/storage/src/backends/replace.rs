//! Replaces a directory by a new one. The old directory is kept under another name until the store
//! is destroyed.
use super::{Location, destroy};
use crate::{Error, Result};
use std::{
    fs, io,
    path::{self, Path, PathBuf},
};
use terrace_vfs::{parent, sync_directory};

/// Replaces the directory `path` by the one that `make` creates. `make` gets the old directory and
/// the path `PATH.repair` of the new one. Then the names of the two directories are exchanged
/// atomically, and the old directory is kept as `PATH.damaged-N`. So at every moment `path` is a
/// complete directory, either the old or the new one. A `PATH.repair` that an interrupted
/// replacement left is also kept as `PATH.damaged-N`, because it may be the old directory.
///
/// Not every system and file system exchanges names. Elsewhere, `path` is missing for a moment
/// after the old directory was set aside. If the replacement is interrupted in that moment, the
/// next call finishes it.
pub fn replace_directory<E: From<Error>>(
    path: &Path,
    make: impl FnOnce(&Path, &Path) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let failed = |op, error| Error::io(op, path.display().to_string(), error);
    if !path.exists() && with_suffix(path, "repair").is_dir() {
        let finished = fs::rename(with_suffix(path, "repair"), path).and_then(|()| sync_directory(parent(path)));
        return Ok(finished.map_err(|error| failed("finish the interrupted repair of", error))?);
    }
    let damaged = fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Missing { what: "store", object: path.display().to_string() },
        _ => Error::io("find", path.display().to_string(), error),
    })?;
    let fresh = with_suffix(&damaged, "repair");
    if fresh.exists() {
        set_aside(&fresh, &damaged).map_err(|error| failed("set aside the interrupted repair of", error))?;
    }
    make(&damaged, &fresh)?;
    match terrace_vfs::exchange(&fresh, &damaged) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            set_aside(&damaged, &damaged).map_err(|error| failed("set aside", error))?;
            let renamed = fs::rename(&fresh, &damaged).and_then(|()| sync_directory(parent(&damaged)));
            Ok(renamed.map_err(|error| failed("rename the repaired store PATH.repair to", error))?)
        }
        exchanged => {
            exchanged.map_err(|error| failed("exchange with the repaired store PATH.repair", error))?;
            Ok(set_aside(&fresh, &damaged).map_err(|error| failed("set aside the damaged copy of", error))?)
        }
    }
}

/// Removes the store in the directory `path`, and the directories that [`replace_directory`] has
/// kept as `PATH.damaged-N`. As in LevelDB, a file that is no store is left alone without an
/// error.
pub fn destroy_with_replaced(path: &Path) -> Result<()> {
    let failed = |error| Error::io("find", path.display().to_string(), error);
    let named = fs::canonicalize(path).or_else(|_| path::absolute(path)).map_err(failed)?;
    destroy_directory(path)?;
    kept(&named).iter().try_for_each(|damaged| destroy_directory(damaged))
}

/// Returns the directories `PATH.damaged-N`.
fn kept(path: &Path) -> Vec<PathBuf> {
    let prefix = with_suffix(path, "damaged-");
    let is_kept = |found: &PathBuf| {
        let number = found.as_os_str().as_encoded_bytes().strip_prefix(prefix.as_os_str().as_encoded_bytes());
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    let parent = path.parent().and_then(|parent| fs::read_dir(parent).ok());
    parent.into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_kept).collect()
}

/// Removes the store in the directory `path`, and the directory if it is then empty.
fn destroy_directory(path: &Path) -> Result<()> {
    match destroy(&Location::at(path)) {
        Err(Error::Unsupported(_)) if path.is_file() => return Ok(()),
        destroyed => destroyed?,
    }
    if path.is_dir() {
        let _ = fs::remove_dir(path); // fails if the directory has files of others
    }
    Ok(())
}

/// Renames `path` durably to the first name `DAMAGED.damaged-N` that does not exist.
fn set_aside(path: &Path, damaged: &Path) -> io::Result<()> {
    let free = (1..).map(|n| with_suffix(damaged, &format!("damaged-{n}"))).find(|path| !path.exists());
    fs::rename(path, free.expect("some number is free"))?;
    sync_directory(parent(damaged))
}

/// Returns `PATH.suffix`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}
