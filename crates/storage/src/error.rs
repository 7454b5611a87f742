//! Storage errors. Their texts say what happened, to which object, and what to do.
use std::{io, sync::Arc};
use terrace_format::Corrupt;
use terrace_vfs::Process;

/// A failed storage operation. It is `Clone`, because one failed sync is the result of many
/// writers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes on storage do not decode. A retry does not help.
    #[error("corrupt {what} in {object} at byte {offset}: {detail}")]
    Corrupt {
        /// The structure that does not decode.
        what: &'static str,
        /// The file, or the name of what takes its place.
        object: String,
        /// The offset in `object`, in bytes.
        offset: u64,
        /// What is wrong.
        detail: String,
    },
    /// The operating system returned an error.
    #[error("{op} {object}: {source}")]
    Io {
        /// The operation.
        op: &'static str,
        /// The file.
        object: String,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// Out of space. Separate from [`Error::Io`], because it can be cured by freeing space.
    #[error("storage is full: {op} {object}: {source}")]
    NoSpace {
        /// The operation.
        op: &'static str,
        /// The file.
        object: String,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// Another process, or another handle of this one, has the store open.
    #[error("{path} is in use: {detail}")]
    InUse {
        /// The store.
        path: String,
        /// The holder, as far as it is known.
        detail: String,
    },
    /// The calling process was forked from the process that opened the store, and must not use it.
    #[error("{object} was opened by process {pid}, and process {own} was forked from it since: {FORKED}")]
    Forked {
        /// The store, or the file.
        object: String,
        /// The process that opened it.
        pid: u32,
        /// The calling process.
        own: u32,
    },
    /// A required object does not exist.
    #[error("missing {what}: {object}")]
    Missing {
        /// The kind of thing.
        what: &'static str,
        /// Its name.
        object: String,
    },
    /// The store needs a feature that this version, or this open mode, does not have.
    #[error("{0}")]
    Unsupported(String),
}

/// The advice to a forked child.
const FORKED: &str = "a store is of the process that opened it; fork first, and open then";

/// The result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wraps an error of the operating system from `op` on `object`; a full disk or quota becomes
    /// [`Error::NoSpace`].
    pub fn io(op: &'static str, object: impl Into<String>, source: io::Error) -> Error {
        let (object, full) = (object.into(), is_full(&source));
        let source = Arc::new(source);
        if full { Error::NoSpace { op, object, source } } else { Error::Io { op, object, source } }
    }

    /// The error of a process that was forked from `opener`, the process that opened `object`.
    pub fn forked(object: impl Into<String>, opener: Process) -> Error {
        Error::Forked { object: object.into(), pid: opener.id(), own: std::process::id() }
    }

    /// Wraps a decoding error in `object`, whose decoded bytes began at offset `base`.
    pub fn corrupt(object: impl Into<String>, base: u64, found: Corrupt) -> Error {
        Error::Corrupt { what: found.what, object: object.into(), offset: base + found.offset, detail: found.detail }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
