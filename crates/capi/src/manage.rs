//! Functions on stores that are not open: destroy and repair.
#![expect(unsafe_code, reason = "C passes zero-terminated strings")]
use crate::{error::Failure, memory, options::Options, refusal};
use std::{
    ffi::CString,
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
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
        None => repair_in_place(path, &engine),
    });
    errptr.of(repaired.map_err(|error| refusal::of_lock(path, error)));
}

/// Repairs a store in place. The new store is written to `PATH.repair`, then the names of the two
/// directories are exchanged atomically, and the damaged store is kept as `PATH.damaged-N`. So at
/// every moment `path` is either the damaged or the new store, complete. The directory of an
/// interrupted repair is also kept as `PATH.damaged-N`, because it may be the damaged store.
fn repair_in_place(path: &Path, options: &terrace::Options) -> Result<()> {
    let failed = |op, source: io::Error| Error::Io { op, object: path.display().to_string(), source: Arc::new(source) };
    let damaged = fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Missing { what: "store", object: path.display().to_string() },
        _ => failed("find", error),
    })?;
    let fresh = with_suffix(&damaged, "repair");
    if fresh.exists() {
        set_aside(&fresh, &damaged).map_err(|error| failed("set aside the interrupted repair of", error))?;
    }
    Db::repair(&damaged, &fresh, options)?;
    exchange(&fresh, &damaged).map_err(|error| failed("exchange with the repaired store PATH.repair", error))?;
    set_aside(&fresh, &damaged).map_err(|error| failed("set aside the damaged copy of", error))
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

/// Exchanges the names of two directories. The exchange is atomic even in a crash.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (one, other) = (name(one)?, name(other)?);
    // SAFETY: both names end in a zero byte and outlive the call.
    let answer =
        unsafe { libc::renameat2(libc::AT_FDCWD, one.as_ptr(), libc::AT_FDCWD, other.as_ptr(), libc::RENAME_EXCHANGE) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
