//! The error type of the engine.
use std::{io, sync::Arc};
use terrace_format::FamilyId;
use terrace_storage as storage;

/// The error of a failed operation. Programs should match on the variant, because the text is for
/// people and may change.
///
/// ```
/// # use terrace::{Db, Error, Options};
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("store");
/// let db = Db::open(&path, Options::default())?;
/// let text = match Db::open(&path, Options::default()) {
///     Err(Error::InUse { path, .. }) => format!("{path} is open elsewhere"),
///     Err(Error::Corrupt { object, offset, .. }) => format!("damaged: {object} at byte {offset}"),
///     Err(other) => other.to_string(),
///     Ok(_) => unreachable!("a store has one opener at a time"),
/// };
/// assert_eq!(text, format!("{} is open elsewhere", path.display()));
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes on storage differ from those that were written. A retry does not help. Restore the
    /// store from a copy, or salvage the readable data with [`Db::repair`](crate::Db::repair).
    #[error("corrupt {what} in {object} at byte {offset}: {detail}")]
    Corrupt {
        /// The structure that cannot be decoded.
        what: &'static str,
        /// The damaged file.
        object: String,
        /// The byte offset in the file.
        offset: u64,
        /// The reason why the bytes are wrong.
        detail: String,
    },
    /// The operating system reported an error.
    #[error("{op} {object}: {source}")]
    Io {
        /// The attempted operation.
        op: &'static str,
        /// The file on which the operation failed.
        object: String,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// The disk or a quota is full. Writes stop, but reads continue. Free some space, and then
    /// call [`resume`](crate::Db::resume) or reopen the store.
    #[error("out of space: {op} {object}: {source}; free some, then resume or reopen the store")]
    NoSpace {
        /// The attempted operation.
        op: &'static str,
        /// The file on which the operation failed.
        object: String,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// The store is already open, in another process or in this process. Close it there first.
    #[error("{path} is in use: {detail}")]
    InUse {
        /// The path of the store.
        path: String,
        /// The process that holds the lock, as far as it is known.
        detail: String,
    },
    /// The calling process was forked from the process that opened the store. The call has done
    /// nothing, because a forked child has neither the threads nor the locks of its parent. Open
    /// the store in the child after the fork.
    #[error(
        "{object} was opened by process {pid} and cannot be used by process {own}, which was forked from it; \
         open the store after the fork"
    )]
    Forked {
        /// The name of the store.
        object: String,
        /// The id of the process that opened the store.
        pid: u32,
        /// The id of the calling process.
        own: u32,
    },
    /// A store, or a file that a store names, does not exist.
    #[error("missing {what}: {object}")]
    Missing {
        /// The kind of the object that does not exist.
        what: &'static str,
        /// The name of the object.
        object: String,
    },
    /// The store needs a feature that this version of Terrace, or this kind of open, does not
    /// have.
    #[error("{0}")]
    Unsupported(String),
    /// An argument or an option is invalid. The call has done nothing.
    #[error("{0}")]
    Invalid(String),
    /// The WALs do not have the write with this sequence number any more. Start from a checkpoint
    /// of the store, or from the sequence number `oldest`.
    #[error(
        "the WALs no longer have sequence {wanted}, the oldest is {oldest}; start from a checkpoint (option \
         wal_size_limit keeps more WALs)"
    )]
    SequenceGone {
        /// The first requested sequence number that is missing.
        wanted: u64,
        /// The lowest sequence number from which on the WALs have every write. If there are no
        /// writes in the WALs, this is the sequence number of the next write.
        oldest: u64,
    },
    /// A transaction cannot be committed, because another write changed a key that the transaction
    /// has read or written. The store contains nothing of the transaction. Run the transaction
    /// again.
    #[error(
        "another write changed key '{}' of column family {family:?}, which the transaction uses; run the transaction again",
        .key.escape_ascii()
    )]
    Conflict {
        /// The name of the column family.
        family: String,
        /// The changed key, or the first key of a changed range.
        key: Vec<u8>,
    },
    /// A transaction waited too long for the lock of a key, because the transaction that holds the
    /// lock did not release it. The waiting transaction keeps its other locks.
    #[error("the lock of key '{}' was not released in time; run the transaction again", .key.escape_ascii())]
    LockTimeout {
        /// The locked key.
        key: Vec<u8>,
    },
    /// A transaction would wait for a lock of another transaction, which directly or indirectly
    /// waits for the first one. Drop the transaction, and run it again.
    #[error("a deadlock: {cycle}; drop the transaction and run it again")]
    Deadlock {
        /// The transactions that wait for each other, with the keys whose locks they want.
        cycle: String,
    },
    /// The store was opened read-only.
    #[error("the store is open read-only; reopen it to write")]
    ReadOnly,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The engine has detected that it violated one of its own invariants. It has made no result of
    /// the violation durable. Close and reopen the store, and report the text of the error.
    #[error("a bug in Terrace: {0}; close and reopen the store, and report this text")]
    Bug(String),
    /// An earlier write or sync failed, so the state of the storage is unknown. Reads continue. To
    /// write again, close and reopen the store, or call [`resume`](crate::Db::resume) if the
    /// failure was a full disk.
    #[error("writes have stopped since an earlier failure: {0}")]
    FailStopped(Arc<Error>),
}

/// The result of an operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns whether the cause of the error is a full disk. If so, free some space and call
    /// [`Db::resume`](crate::Db::resume).
    ///
    /// ```
    /// # use terrace::{Db, Error, Options};
    /// fn put_with_retry(db: &Db, free_space: impl Fn()) -> terrace::Result<()> {
    ///     match db.put("key", "value") {
    ///         Err(error) if error.is_no_space() => {
    ///             free_space();
    ///             db.resume()?;
    ///             db.put("key", "value")
    ///         }
    ///         result => result,
    ///     }
    /// }
    /// put_with_retry(&Db::open_in_memory(Options::default())?, || ())?;
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

    /// Returns whether a transaction failed only because of other transactions or writes, so
    /// that it may succeed if it runs again.
    ///
    /// ```
    /// # use terrace::Error;
    /// assert!(Error::Conflict { family: "default".into(), key: b"k".to_vec() }.is_retryable());
    /// assert!(!Error::Closed.is_retryable());
    /// ```
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Conflict { .. } | Error::LockTimeout { .. } | Error::Deadlock { .. })
    }

    /// Returns whether an object is corrupt or missing, or an I/O operation failed.
    pub(crate) fn is_io_or_damage(&self) -> bool {
        matches!(self, Error::Corrupt { .. } | Error::Missing { .. } | Error::Io { .. })
    }

    /// Returns whether an object is corrupt or missing.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Error::Corrupt { .. } | Error::Missing { .. })
    }

    /// Turns an out-of-space error into an I/O error. Used for a failure that the caller cannot
    /// repair by freeing space.
    pub(crate) fn without_recovery(self) -> Error {
        match self {
            Error::NoSpace { op, object, source } => Error::Io { op, object, source },
            other => other,
        }
    }

    /// Returns the error for an operation on a column family that no longer exists.
    pub(crate) fn family_dropped(family: FamilyId) -> Error {
        Error::Invalid(format!("column family {family} was dropped; open another one with Db::cf"))
    }

    /// Returns the error for a file `object` whose bytes contradict the rest of the store.
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
