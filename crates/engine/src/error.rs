//! Why an operation failed, in one enum that says what to do.
use std::{io, sync::Arc};
use terrace_storage as storage;

/// A failed operation. Match on the variant; the text is for people and may change.
///
/// ```
/// # use terrace::{Db, Error, Options};
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("store");
/// let db = Db::open(&path, Options::default())?;
/// let told = match Db::open(&path, Options::default()) {
///     Err(Error::InUse { path, .. }) => format!("somebody has {path} open"),
///     Err(Error::Corrupt { object, offset, .. }) => format!("damaged: {object} at byte {offset}"),
///     Err(other) => other.to_string(),
///     Ok(_) => unreachable!("one opener at a time"),
/// };
/// assert_eq!(told, format!("somebody has {} open", path.display()));
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes on storage are not what was written. Restore from a copy; retrying will not help.
    #[error("corrupt {what} in {object} at byte {offset}: {detail}")]
    Corrupt {
        /// The structure that does not decode.
        what: &'static str,
        /// The file.
        object: String,
        /// Where in the file, in bytes.
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
    /// No space is left. Writes stop, reads go on. Free some, then [`resume`](crate::Db::resume) or reopen the store.
    #[error("storage is full: {op} {object}: {source}")]
    NoSpace {
        /// What was tried.
        op: &'static str,
        /// On which file.
        object: String,
        /// The operating system's answer.
        source: Arc<io::Error>,
    },
    /// Another process, or another handle of this one, has the store open. Close that one first.
    #[error("{path} is in use: {detail}")]
    InUse {
        /// The store.
        path: String,
        /// Who holds it, as far as that can be told.
        detail: String,
    },
    /// The process that opened the store has forked the calling one. Nothing was done: a child has neither the threads of its
    /// parent nor its locks. Fork first, and open in the process that is to use the store.
    #[error(
        "{object} was opened by process {pid}, and process {own} was forked from it since: a store is of the process that \
         opened it; fork first, and open then"
    )]
    Forked {
        /// The store.
        object: String,
        /// The process that opened it.
        pid: u32,
        /// The calling process.
        own: u32,
    },
    /// A thing that should be there is not: a store, or a file that a store names.
    #[error("missing {what}: {object}")]
    Missing {
        /// The kind of thing.
        what: &'static str,
        /// Its name.
        object: String,
    },
    /// The store needs something that this version, or this way of opening it, does not offer.
    #[error("{0}")]
    Unsupported(String),
    /// An argument or option cannot be. Nothing was done.
    #[error("invalid argument: {0}")]
    Invalid(String),
    /// The logs no longer have what was written with this sequence. Begin with a copy of the whole store, or with `oldest`.
    #[error(
        "the logs no longer have sequence {wanted}; the oldest there is {oldest} (option wal_size_limit keeps more)"
    )]
    SequenceGone {
        /// The first sequence that was asked for and is not there.
        wanted: u64,
        /// The oldest from which on the history is there; one behind the newest if there is none at all.
        oldest: u64,
    },
    /// The store is open for reading only.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The engine contradicts itself; nothing was made durable on the strength of it. Close, reopen, and report it.
    #[error("a bug in Terrace: {0}")]
    Bug(String),
    /// An earlier write or sync failed, so what is on storage is unknown. Reads go on; to write, close and reopen, or
    /// [`resume`](crate::Db::resume) where the failure was a full disk.
    #[error("refusing writes since an earlier failure: {0}")]
    FailStopped(Arc<Error>),
}

/// Result of an operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether space is all that there is a lack of: free some, and [`Db::resume`](crate::Db::resume).
    ///
    /// ```
    /// # use terrace::{Db, Error, Options};
    /// fn put_when_there_is_room(db: &Db, free_some: impl Fn()) -> terrace::Result<()> {
    ///     match db.put("key", "value") {
    ///         Err(error) if error.is_no_space() => {
    ///             free_some();
    ///             db.resume()?;
    ///             db.put("key", "value")
    ///         }
    ///         done => done,
    ///     }
    /// }
    /// put_when_there_is_room(&Db::open_in_memory(Options::default())?, || ())?;
    /// assert!(!Error::Closed.is_no_space());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::NoSpace { .. } => true,
            Error::FailStopped(first) => first.is_no_space(),
            _ => false,
        }
    }

    /// Whether something is damaged, or gone, or could not be read or written.
    pub(crate) fn is_input_or_output(&self) -> bool {
        matches!(self, Error::Corrupt { .. } | Error::Missing { .. } | Error::Io { .. })
    }

    /// Whether something that was there is damaged, or gone.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Error::Corrupt { .. } | Error::Missing { .. })
    }

    /// The same of something that space does not cure any more.
    pub(crate) fn lasting(self) -> Error {
        match self {
            Error::NoSpace { op, object, source } => Error::Io { op, object, source },
            other => other,
        }
    }

    /// Bytes of `object` that contradict the rest of the store.
    pub(crate) fn corrupt(
        what: &'static str,
        object: impl Into<String>,
        offset: u64,
        detail: impl Into<String>,
    ) -> Error {
        Error::Corrupt { what, object: object.into(), offset, detail: detail.into() }
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Error {
        match error {
            storage::Error::Corrupt { what, object, offset, detail } => Error::Corrupt { what, object, offset, detail },
            storage::Error::Io { op, object, source } => Error::Io { op, object, source },
            storage::Error::NoSpace { op, object, source } => Error::NoSpace { op, object, source },
            storage::Error::InUse { path, detail } => Error::InUse { path, detail },
            storage::Error::Forked { object, pid, own } => Error::Forked { object, pid, own },
            storage::Error::Missing { what, object } => Error::Missing { what, object },
            storage::Error::Unsupported(text) => Error::Unsupported(text),
            other => Error::Unsupported(other.to_string()),
        }
    }
}
