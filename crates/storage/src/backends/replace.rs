//! Replaces a directory by a new one, and keeps the old one under another name.
use crate::Error;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Replaces the directory `path` by the one that `make` creates. `make` gets the old directory and
/// the path `PATH.repair` of the new one. Then the names of the two directories are exchanged
/// atomically, and the old directory is kept as `PATH.damaged-N`. So at every moment `path` is
/// either the old or the new directory, complete. The directory of an interrupted replacement is
/// also kept as `PATH.damaged-N`, because it may be the old directory.
pub fn replace_directory<E: From<Error>>(
    path: &Path,
    make: impl FnOnce(&Path, &Path) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let damaged = fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Missing { what: "store", object: path.display().to_string() },
        _ => Error::io("find", path.display().to_string(), error),
    })?;
    let fresh = with_suffix(&damaged, "repair");
    let failed = |op, error| Error::io(op, path.display().to_string(), error);
    if fresh.exists() {
        set_aside(&fresh, &damaged).map_err(|error| failed("set aside the interrupted repair of", error))?;
    }
    make(&damaged, &fresh)?;
    exchange(&fresh, &damaged).map_err(|error| failed("exchange with the repaired store PATH.repair", error))?;
    Ok(set_aside(&fresh, &damaged).map_err(|error| failed("set aside the damaged copy of", error))?)
}

/// Exchanges the names of two directories. The exchange is atomic even in a crash.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)?)
}

/// Renames `path` durably to the first name `DAMAGED.damaged-N` that does not exist.
fn set_aside(path: &Path, damaged: &Path) -> io::Result<()> {
    let free = (1..).map(|n| with_suffix(damaged, &format!("damaged-{n}"))).find(|path| !path.exists());
    fs::rename(path, free.expect("some number is free"))?;
    File::open(damaged.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Returns `PATH.suffix`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}
