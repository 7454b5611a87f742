//! Kinds of errors as numbers, for programs that must not depend on the text of an error.
//!
//! An error reaches C as a text, without its kind. The library therefore stores the kind of the
//! last error of each thread, as C does with `errno`. Every function with an `errptr` thus also
//! reports a kind, and the declarations of LevelDB's functions do not change.
#![expect(unsafe_code, reason = "C calls the functions by name")]
use crate::error::Kind;
use libc::c_int;
use std::cell::Cell;
use terrace::Error;

thread_local! {
    /// The kind of the last error in this thread.
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// Stores a number of `terrace/c.h` as the kind of the last error of this thread.
pub fn remember(number: c_int) {
    LAST.set(number);
}

/// Returns the number of `terrace/c.h` for the kind of `error`.
pub fn number(error: &Error) -> c_int {
    match error {
        // The first arm includes a store whose writes have stopped because its disk was full.
        error if error.is_no_space() => NO_SPACE,
        Error::Corrupt { .. } => 1,
        Error::Missing { what: "column family", .. } => 17,
        Error::Missing { what, .. } if !what.starts_with("store") => 1, // a file that the store names
        Error::InUse { .. } => IN_USE,
        Error::Missing { .. } => 5,
        Error::Invalid(_) => 6,
        Error::Unsupported(_) => 7,
        Error::ReadOnly => 8,
        Error::Closed => 9,
        Error::FailStopped(_) => 10,
        Error::SequenceGone { .. } => 11,
        Error::Forked { .. } => 12,
        Error::Bug(_) => 13,
        Error::Conflict { .. } => 14,
        Error::LockTimeout { .. } => 15,
        Error::Deadlock { .. } => 16,
        _ => 2,
    }
}

/// The number of `terrace/c.h` for a full disk.
pub const NO_SPACE: c_int = 3;
/// The number of `terrace/c.h` for a store or a place that is in use.
pub const IN_USE: c_int = 4;

/// Returns the number of `terrace/c.h` for an error that is not one of the engine.
pub fn number_of_kind(kind: Kind) -> c_int {
    match kind {
        Kind::Corruption => 1,
        Kind::NotFound | Kind::IoError => 2, // the operating system did not find a file
        Kind::InvalidArgument => 6,
        Kind::NotSupported => 7,
        Kind::Busy => 14,
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_last_error_kind() -> c_int {
    LAST.get()
}

#[unsafe(no_mangle)]
extern "C" fn terrace_kind_is_retryable(kind: c_int) -> u8 {
    matches!(kind, 14..=16).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io, sync::Arc};

    #[test]
    fn every_error_has_the_number_of_the_header() {
        let header = include_str!("../../include/terrace/c.h");
        let io = || Arc::new(io::Error::other("x"));
        let (object, detail) = (String::new, String::new);
        let full = Error::NoSpace { op: "write", object: object(), source: io() };
        let stopped = |error: &Error| Error::FailStopped(Arc::new(error.clone()));
        let failed = Error::Io { op: "write", object: object(), source: io() };
        let cases = [
            ("corruption", Error::Corrupt { what: "block", object: object(), offset: 0, detail: detail() }),
            ("corruption", Error::Missing { what: "SSTable", object: object() }),
            ("io_error", failed.clone()),
            ("no_space", full.clone()),
            ("no_space", stopped(&full)),
            ("in_use", Error::InUse { path: String::new(), detail: detail() }),
            ("missing_store", Error::Missing { what: "store", object: object() }),
            ("invalid", Error::Invalid(detail())),
            ("not_supported", Error::Unsupported(detail())),
            ("read_only", Error::ReadOnly),
            ("closed", Error::Closed),
            ("stopped", stopped(&failed)),
            ("sequence_gone", Error::SequenceGone { wanted: 1, oldest: 2 }),
            ("forked", Error::Forked { object: object(), pid: 1, own: 2 }),
            ("bug", Error::Bug(detail())),
            ("conflict", Error::Conflict { family: object(), key: Vec::new() }),
            ("lock_timeout", Error::LockTimeout { key: Vec::new() }),
            ("deadlock", Error::Deadlock { cycle: detail() }),
            ("missing_column_family", Error::Missing { what: "column family", object: object() }),
        ];
        for (name, error) in cases {
            let declared = format!("  terrace_kind_{name} = {}", number(&error));
            let line = header.lines().find(|line| line.starts_with(&format!("  terrace_kind_{name} =")));
            let line = line.unwrap_or_else(|| panic!("the header has no {name}"));
            let rest = line.strip_prefix(&declared);
            let is_whole_number = rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()));
            assert_eq!(terrace_kind_is_retryable(number(&error)) != 0, error.is_retryable(), "{error:?}");
            assert!(is_whole_number, "{error:?} has the number {}, but the header has: {line}", number(&error));
        }
    }
}
