//! Errors of calls into other key-value stores.
use std::{ffi::CString, path::Path};

/// An error of a call into another key-value store. If that store returned an error text, the
/// error contains this text.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The shared library of the store is not installed, or it lacks a function. The error says how
    /// to install the library.
    #[error("cannot load {name} ({reason}); {install}")]
    NotLoaded {
        /// Name of the store.
        name: &'static str,
        /// The dynamic linker's error text. If several file names of the library were tried, it is
        /// the error for the first one.
        reason: String,
        /// Instructions to install the library.
        install: &'static str,
    },
    /// The store returned an error.
    #[error("{op}: {text}")]
    Refused {
        /// The operation that failed.
        op: &'static str,
        /// The store's error text.
        text: String,
    },
    /// A name that C cannot represent because it contains a zero byte.
    #[error("{0:?} contains a zero byte")]
    ZeroByte(String),
}

/// Result of a call into another store.
pub type Result<T> = std::result::Result<T, PeerError>;

/// Returns a path as a C string.
pub(crate) fn c_name(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| PeerError::ZeroByte(path.to_string_lossy().into_owned()))
}
