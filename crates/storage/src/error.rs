//! Errors of storage operations. An error text states the failure, the object, and what the user
//! can do.
use std::{io, sync::Arc};
use terrace_format::{Corrupt, compress::MISSING_CODEC};
use terrace_vfs::Process;

/// A failed storage operation. The type is `Clone`, because all writers of a write group get the
/// error of one failed sync.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that were read do not decode. A retry does not help.
    #[error("corrupt {what} in {object} at byte {offset}: {detail}")]
    Corrupt {
        /// The structure that does not decode.
        what: &'static str,
        /// The file, or on a raw device the name of the object.
        object: String,
        /// The offset in `object`, in bytes.
        offset: u64,
        /// A description of the corruption.
        detail: String,
    },
    /// The operating system returned an error.
    #[error("{op} {object}: {source}")]
    Io {
        /// The name of the failed operation.
        op: &'static str,
        /// The file of the failed operation.
        object: String,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The disk is full. This error is separate from [`Error::Io`], because freeing space cures it.
    #[error("storage is full: {op} {object}: {source}")]
    NoSpace {
        /// The name of the failed operation.
        op: &'static str,
        /// The file of the failed operation.
        object: String,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// Another process, or another handle of this process, has the store open.
    #[error("{path} is in use: {detail}")]
    InUse {
        /// The path of the store.
        path: String,
        /// The process or handle that has the store open, as far as it is known.
        detail: String,
    },
    /// The calling process was forked from the process that opened the store. A forked process must
    /// not use the store.
    #[error("{object} was opened by process {pid}, and process {own} was forked from it since: {FORKED}")]
    Forked {
        /// The store, or the file.
        object: String,
        /// The id of the process that opened the store or the file.
        pid: u32,
        /// The id of the calling process.
        own: u32,
    },
    /// A required object does not exist.
    #[error("missing {what}: {object}")]
    Missing {
        /// The kind of object.
        what: &'static str,
        /// The name of the object.
        object: String,
    },
    /// The store needs a feature that this version or this open mode does not support.
    #[error("{0}")]
    Unsupported(String),
}

/// The advice in the error text for a forked child process.
const FORKED: &str = "a store is of the process that opened it; fork first, and open then";

/// The result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wraps an error of the operating system from operation `op` on `object`. If the disk or the
    /// quota is full, the result is [`Error::NoSpace`].
    pub fn io(op: &'static str, object: impl Into<String>, source: io::Error) -> Error {
        let (object, full) = (object.into(), is_full(&source));
        let source = Arc::new(source);
        if full { Error::NoSpace { op, object, source } } else { Error::Io { op, object, source } }
    }

    /// Returns the error for a process that was forked from `opener`, the process that opened
    /// `object`.
    pub fn forked(object: impl Into<String>, opener: Process) -> Error {
        Error::Forked { object: object.into(), pid: opener.id(), own: std::process::id() }
    }

    /// Wraps an error from decoding bytes of `object`. The decoded bytes began at offset `base`.
    pub fn corrupt(object: impl Into<String>, base: u64, found: Corrupt) -> Error {
        let (object, offset) = (object.into(), base + found.offset);
        if found.what == MISSING_CODEC {
            return Error::Unsupported(format!("{object} at byte {offset}: {}", found.detail));
        }
        Error::Corrupt { what: found.what, object, offset, detail: found.detail }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
