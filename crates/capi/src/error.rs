//! Errors in LevelDB's C form: a string from `malloc`. Its first words name the kind of error, as
//! in LevelDB. The module `extra::kind` remembers the kind as a number.
#![expect(unsafe_code, reason = "the text that an error replaces came from malloc")]
use crate::{extra::kind as number, memory};
use std::ptr;
use terrace::{Error, Result};

/// The target of `errptr`: `NULL`, or a string from `malloc`.
#[repr(transparent)]
pub struct Failure(*mut u8);

impl Failure {
    /// Returns the value of `result`. An error frees the older string and stores its own. A success
    /// leaves the string unchanged.
    pub fn of<T>(&mut self, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        number::remember(&error);
        let old = std::mem::replace(&mut self.0, ptr::null_mut());
        // SAFETY: the headers require NULL or a string from malloc, which this function may free.
        unsafe { memory::free(old) };
        self.0 = memory::copy_text(format!("{}: {error}", kind(&error)));
        None
    }
}

/// Returns the first words of LevelDB's message for this error. Programs use them to distinguish
/// errors.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Corrupt { .. } | Error::Bug(_) => "Corruption",
        Error::Missing { what, .. } if !what.starts_with("store") => "Corruption", // a file that the store names
        Error::Missing { .. } | Error::Invalid(_) => "Invalid argument",
        Error::Unsupported(_) => "Not implemented",
        _ => "IO error",
    }
}
