//! Why a peer said no.
use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path};

/// A failed call into another store. The text is the other store's own wherever it gave one.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The shared library is not on this machine, or lacks a function. The text says what to install.
    #[error("cannot load {name} ({reason}); {install}")]
    NotLoaded {
        /// The store whose library is looked for.
        name: &'static str,
        /// The dynamic linker's answer for the first name tried.
        reason: String,
        /// How to get it.
        install: &'static str,
    },
    /// The store answered with an error.
    #[error("{op}: {text}")]
    Refused {
        /// The call.
        op: &'static str,
        /// The store's text.
        text: String,
    },
    /// A name that C cannot express, because it holds a zero byte.
    #[error("{0:?} contains a zero byte")]
    ZeroByte(String),
}

/// Result of a call into another store.
pub type Result<T> = std::result::Result<T, PeerError>;

/// A path as C takes it.
pub(crate) fn c_name(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| PeerError::ZeroByte(path.to_string_lossy().into_owned()))
}
