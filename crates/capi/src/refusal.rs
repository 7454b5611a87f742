//! Messages of opens, destroys and repairs that were refused. If LevelDB refuses the same call,
//! the message begins with LevelDB's text, because programs search for that text. Terrace's own
//! text follows in parentheses.
//!
//! Source of the texts: the messages of LevelDB 1.23.
#![allow(unsafe_code, reason = "a call of the operating system")]
use crate::error::{Kind, Message};
use std::{io, path::Path};
use terrace::{Error, Options};

/// Returns the message for an open of the store `path` with `options` that failed with `error`.
pub fn of_open(path: &Path, options: &Options, error: Error) -> Message {
    let shown = path.display();
    match &error {
        Error::Missing { what, .. } if what.starts_with("store") && !options.create_if_missing => match no_lock(path) {
            Some(reason) => Message::of(&error, Kind::IoError, format!("{shown}/LOCK: {reason} ({error})")),
            None => Message::of(
                &error,
                Kind::InvalidArgument,
                format!("{shown}: does not exist (create_if_missing is false)"),
            ),
        },
        Error::Invalid(text) if options.error_if_exists && text.ends_with("error_if_exists is set") => {
            Message::of(&error, Kind::InvalidArgument, format!("{shown}: exists (error_if_exists is true)"))
        }
        Error::Invalid(text) => match stored_comparator(text) {
            Some(stored) => {
                let given = options.order().name();
                let text = format!("{stored} does not match existing comparator : {given}");
                Message::of(&error, Kind::InvalidArgument, text)
            }
            None => error.into(),
        },
        Error::Unsupported(text) if path.is_file() => {
            Message::of(&error, Kind::IoError, format!("{shown}/LOCK: Not a directory ({text})"))
        }
        _ => of_lock(path, error),
    }
}

/// Returns the message for a destroy or repair of the store `path` that failed with `error`.
pub fn of_lock(path: &Path, error: Error) -> Message {
    let lock = format!("{}/LOCK", path.display());
    match &error {
        Error::InUse { detail, .. } => {
            let of_another = detail.starts_with("process "); // with its number
            let reason = if of_another { "Resource temporarily unavailable" } else { "already held by process" };
            Message::of(&error, Kind::IoError, format!("lock {lock}: {reason} ({detail})"))
        }
        Error::Io { op, object, source } => match reason(source) {
            Some(reason) => {
                let object = if *op == "lock" { &lock } else { object };
                Message { text: format!("{object}: {reason} ({error})"), ..error.clone().into() }
            }
            None => error.into(),
        },
        _ => error.into(),
    }
}

/// Returns the reason why no lock file can be created in the existing directory `path`. LevelDB
/// locks a directory before it looks for a store in it, so LevelDB reports this reason and not
/// that the store is missing.
#[cfg(unix)]
fn no_lock(path: &Path) -> Option<String> {
    use std::{ffi::CString, os::unix::ffi::OsStrExt};
    let directory = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: the name ends in a zero byte and outlives the call.
    let denied = path.is_dir() && unsafe { libc::access(directory.as_ptr(), libc::W_OK | libc::X_OK) } != 0;
    denied.then(io::Error::last_os_error).as_ref().and_then(reason)
}

/// Returns `None`: the access rights of Windows show only in an attempt.
#[cfg(windows)]
fn no_lock(_: &Path) -> Option<String> {
    None
}

/// Returns the name of the comparator of an existing store. `text` is the engine's error message,
/// which says that this comparator differs from the one in the options.
fn stored_comparator(text: &str) -> Option<&str> {
    let after = text.strip_prefix("the store is sorted by comparator \"")?;
    after.split_once("\", the options say ").map(|(stored, _)| stored)
}

/// Returns the operating system's text for `error`.
fn reason(error: &io::Error) -> Option<String> {
    error.raw_os_error()?;
    let text = error.to_string();
    text.split_once(" (os error").map(|(reason, _)| reason.to_owned())
}
