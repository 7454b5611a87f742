//! Kinds of errors as numbers, for programs that must not depend on the text of an error.
//!
//! An error reaches C as a text. Its kind is stored per thread, as `errno` is, so that every
//! function that has an `errptr` also has a kind, and no declaration of LevelDB changes.
#![expect(unsafe_code, reason = "C calls the functions by name")]
use libc::c_int;
use std::cell::Cell;
use terrace::Error;

thread_local! {
    /// The kind of the last error in this thread.
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// Stores the kind of `error` as the last one of this thread.
pub fn remember(error: &Error) {
    LAST.set(number(error));
}

/// Returns the number of `terrace/c.h` for the kind of `error`.
fn number(error: &Error) -> c_int {
    match error {
        // The first arm includes a store whose writes have stopped because its disk was full.
        error if error.is_no_space() => 3,
        Error::Corrupt { .. } => 1,
        Error::Missing { what, .. } if !what.starts_with("store") => 1, // a file that the store names
        Error::InUse { .. } => 4,
        Error::Missing { .. } => 5,
        Error::Invalid(_) => 6,
        Error::Unsupported(_) => 7,
        Error::ReadOnly => 8,
        Error::Closed => 9,
        Error::FailStopped(_) => 10,
        Error::SequenceGone { .. } => 11,
        Error::Forked { .. } => 12,
        Error::Bug(_) => 13,
        _ => 2,
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_last_error_kind() -> c_int {
    LAST.get()
}
