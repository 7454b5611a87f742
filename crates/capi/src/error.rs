//! Errors as LevelDB tells them to C: a text from `malloc`, whose first words are LevelDB's for the kind of error.
#![expect(unsafe_code, reason = "the text that an error replaces came from malloc")]
use crate::memory;
use std::ptr;
use terrace::{Error, Result};

/// Where `errptr` leads: `NULL`, or a text from `malloc`.
#[repr(transparent)]
pub struct Failure(*mut u8);

impl Failure {
    /// Hands the value on; an error becomes the text, and the older text is freed. Success leaves it as it is.
    pub fn of<T>(&mut self, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let old = std::mem::replace(&mut self.0, ptr::null_mut());
        // SAFETY: the headers ask for NULL or a text from malloc, which is ours to replace.
        unsafe { memory::free(old) };
        self.0 = memory::copy_text(format!("{}: {error}", kind(&error)));
        None
    }
}

/// What LevelDB's texts begin with. Programs tell errors apart by it.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Corrupt { .. } | Error::Bug(_) => "Corruption",
        Error::Missing { what, .. } if !what.starts_with("store") => "Corruption", // a file that the store names
        Error::Missing { .. } | Error::Invalid(_) => "Invalid argument",
        Error::Unsupported(_) => "Not implemented",
        _ => "IO error",
    }
}
