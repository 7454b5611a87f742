//! Errors in LevelDB's C form. An error is a string from `malloc`. As in LevelDB, the first words
//! of the string name the kind of the error.
#![expect(unsafe_code, reason = "strings from malloc, and exported functions keep their C names")]
use crate::{extra::kind as number, memory};
use libc::c_int;
use std::{io, ptr};
use terrace::Error;

/// The target of `errptr`: `NULL`, or a string from `malloc`.
#[repr(transparent)]
pub struct Failure(*mut u8);

impl Failure {
    /// Returns the value of `result`. If `result` is an error, frees the previous string, stores
    /// the string of the error, and makes the error the last one of this thread. If `result` is a
    /// success, the string and the last error stay unchanged.
    pub fn of<T>(&mut self, result: Result<T, impl Into<Message>>) -> Option<T> {
        let Message { kind, number, text } = match result {
            Ok(value) => return Some(value),
            Err(error) => error.into(),
        };
        number::remember(number);
        let old = std::mem::replace(&mut self.0, ptr::null_mut());
        // SAFETY: the headers require NULL or a string from malloc, which this function may free.
        unsafe { memory::free(old) };
        self.0 = memory::copy_text(format!("{}{text}", kind.words()));
        None
    }
}

/// The kind of an error, with LevelDB's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    NotFound = 1,
    Corruption = 2,
    NotSupported = 3,
    InvalidArgument = 4,
    IoError = 5,
    /// A conflict of transactions. LevelDB has no number for it: `terrace_error_kind` calls it an
    /// I/O error.
    Busy = 6,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::NotFound, Kind::Corruption, Kind::NotSupported, Kind::InvalidArgument, Kind::IoError];

    /// Returns the first words of LevelDB's message for this kind. Programs use them to distinguish
    /// errors.
    fn words(self) -> &'static str {
        match self {
            Kind::NotFound => "NotFound: ",
            Kind::Corruption => "Corruption: ",
            Kind::NotSupported => "Not implemented: ",
            Kind::InvalidArgument => "Invalid argument: ",
            Kind::IoError => "IO error: ",
            Kind::Busy => "Resource busy: ",
        }
    }
}

/// An error as C programs receive it.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    /// The number of `terrace_last_error_kind`.
    pub number: c_int,
    pub text: String,
}

impl Message {
    /// Returns the message of an error that is not one of the engine.
    pub fn new(kind: Kind, text: impl Into<String>) -> Message {
        Message { kind, number: number::number_of_kind(kind), text: text.into() }
    }

    /// Returns a message for `error` with another kind and text than its own.
    pub fn of(error: &Error, kind: Kind, text: impl Into<String>) -> Message {
        Message { kind, number: number::number(error), text: text.into() }
    }
}

impl From<Error> for Message {
    fn from(error: Error) -> Message {
        let kind = match &error {
            error if error.is_retryable() => Kind::Busy,
            Error::Missing { what: "column family", .. } => Kind::InvalidArgument,
            Error::Corrupt { .. } | Error::Bug(_) => Kind::Corruption,
            Error::Missing { what, .. } if !what.starts_with("store") => Kind::Corruption, // a file that the store names
            Error::Missing { .. } | Error::Invalid(_) => Kind::InvalidArgument,
            Error::Unsupported(_) => Kind::NotSupported,
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => Kind::NotFound,
            _ => Kind::IoError,
        };
        Message::of(&error, kind, error.to_string())
    }
}

/// Returns the kind of the error message `error`, which it recognises by the first words of the
/// message. Stores a pointer to the rest of the text in `message`. A text that does not begin with
/// the words of a kind is an I/O error.
///
/// # Safety
/// `error` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_error_kind(error: *const u8, message: Option<&mut *const u8>) -> c_int {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { memory::text(error) };
    let found = Kind::ALL.into_iter().find(|kind| text.starts_with(kind.words().as_bytes()));
    if let Some(message) = message {
        // The first words are a part of the text, so the pointer to the rest is inside the text.
        *message = text[found.map_or(0, |kind| kind.words().len())..].as_ptr();
    }
    found.unwrap_or(Kind::IoError) as c_int
}
