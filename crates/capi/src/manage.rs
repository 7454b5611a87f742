//! Functions on stores that are not open: destroy and repair.
#![expect(unsafe_code, reason = "C passes zero-terminated strings")]
use crate::{error::Failure, memory, options::Options, refusal};
use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};
use terrace::{Db, Error, Result};

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_destroy_db(options: &Options, name: *const u8, errptr: &mut Failure) {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { memory::path(name) };
    let destroyed = match &options.stores {
        Some(stores) => stores.destroy(path),
        None => destroy(path),
    };
    errptr.of(destroyed.map_err(|error| refusal::of_lock(path, error)));
}

/// Removes the store in the directory `path` and the damaged stores that repairs of it have kept.
fn destroy(path: &Path) -> Result<()> {
    let named = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    destroy_directory(path)?;
    kept_by_repairs(&named).iter().try_for_each(|damaged| destroy_directory(damaged))
}

/// Returns the directories `PATH.damaged-N`.
fn kept_by_repairs(path: &Path) -> Vec<PathBuf> {
    let prefix = with_suffix(path, "damaged-");
    let is_kept = |found: &PathBuf| {
        let number = found.as_os_str().as_bytes().strip_prefix(prefix.as_os_str().as_bytes());
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    let parent = path.parent().and_then(|parent| fs::read_dir(parent).ok());
    parent.into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_kept).collect()
}

/// Removes the store in the directory `path`, and the directory if it is then empty. As in LevelDB,
/// a file that is no store is left alone without an error.
fn destroy_directory(path: &Path) -> Result<()> {
    match Db::destroy(path) {
        Err(Error::Unsupported(_)) if path.is_file() => return Ok(()),
        destroyed => destroyed?,
    }
    if path.is_dir() {
        let _ = fs::remove_dir(path); // fails if the directory has files of others
    }
    Ok(())
}

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_repair_db(options: &Options, name: *const u8, errptr: &mut Failure) {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { memory::path(name) };
    let repaired = options.resolve().and_then(|engine| match &options.stores {
        Some(stores) => stores.repair(path, &engine),
        None => Db::repair_in_place(path, &engine),
    });
    errptr.of(repaired.map_err(|error| refusal::of_lock(path, error)));
}

/// Returns `PATH.suffix`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}
