//! Why storage failed, in words that say what to do.
use std::{io, sync::Arc};
use terrace_format::Corrupt;
use terrace_vfs::Process;

/// A failed storage operation. Cloneable, because one failed sync is the answer to many writers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes on storage are not what was written. Retrying will not help.
    #[error("corrupt {what} in {object} at byte {offset}: {detail}")]
    Corrupt {
        /// The structure that does not decode.
        what: &'static str,
        /// The file, or what stands for one.
        object: String,
        /// Where in `object`, in bytes.
        offset: u64,
        /// What is wrong with it.
        detail: String,
    },
    /// The operating system refused.
    #[error("{op} {object}: {source}")]
    Io {
        /// What was tried.
        op: &'static str,
        /// On which file.
        object: String,
        /// Its answer.
        source: Arc<io::Error>,
    },
    /// No space is left. Apart from [`Error::Io`] because freeing some cures it.
    #[error("storage is full: {op} {object}: {source}")]
    NoSpace {
        /// What was tried.
        op: &'static str,
        /// On which file.
        object: String,
        /// The operating system's answer.
        source: Arc<io::Error>,
    },
    /// Another process, or another handle of this one, has the store open.
    #[error("{path} is in use: {detail}")]
    InUse {
        /// The store.
        path: String,
        /// Who holds it, as far as that can be told.
        detail: String,
    },
    /// The process that opened this has forked the calling one, which must not use it.
    #[error("{object} was opened by process {pid}, and process {own} was forked from it since: {FORKED}")]
    Forked {
        /// The store, or the file.
        object: String,
        /// The process that opened it.
        pid: u32,
        /// The calling process.
        own: u32,
    },
    /// A thing that should be there is not.
    #[error("missing {what}: {object}")]
    Missing {
        /// The kind of thing.
        what: &'static str,
        /// Its name.
        object: String,
    },
    /// The store needs something that this version, or this way of opening, does not offer.
    #[error("{0}")]
    Unsupported(String),
}

/// What a forked child is to do.
const FORKED: &str = "a store is of the process that opened it; fork first, and open then";

/// Result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An operating-system error from `op` on `object`; a full disk or quota becomes [`Error::NoSpace`].
    pub fn io(op: &'static str, object: impl Into<String>, source: io::Error) -> Error {
        let (object, full) = (object.into(), is_full(&source));
        let source = Arc::new(source);
        if full { Error::NoSpace { op, object, source } } else { Error::Io { op, object, source } }
    }

    /// The calling process was forked from the one, `opener`, that opened `object`.
    pub fn forked(object: impl Into<String>, opener: Process) -> Error {
        Error::Forked { object: object.into(), pid: opener.id(), own: std::process::id() }
    }

    /// A decoding error found in `object`, whose decoded bytes began at `base`.
    pub fn corrupt(object: impl Into<String>, base: u64, found: Corrupt) -> Error {
        Error::Corrupt { what: found.what, object: object.into(), offset: base + found.offset, detail: found.detail }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
