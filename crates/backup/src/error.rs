//! The error type of backups.
use std::io;

/// The error of a failed operation on backups. No error damages the store or a backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation of the store failed, such as the checkpoint.
    #[error(transparent)]
    Store(#[from] terrace::Error),
    /// The operating system, or the target of the backups, reported an error.
    #[error("{op} {object}: {source}{}", advice(op, source))]
    Io {
        /// The attempted operation.
        op: &'static str,
        /// The file or object on which the operation failed.
        object: String,
        /// The reported error.
        source: io::Error,
    },
    /// A file of a backup differs from the file that was written.
    #[error("damaged backup file {object}: {detail}")]
    Damaged {
        /// The damaged file.
        object: String,
        /// The reason why the file is damaged.
        detail: String,
    },
    /// There is no backup with this number.
    #[error("{place} has no backup {id}; it has {}", listed(existing))]
    Missing {
        /// The place of the backups.
        place: String,
        /// The number of the requested backup.
        id: u64,
        /// The numbers of the backups that exist.
        existing: Vec<u64>,
    },
    /// Another call creates or removes backups at the same place, or backs up the same store.
    #[error("{0} is in use by another call that creates or removes backups; try again later")]
    InUse(String),
    /// An argument, or the state of a directory that it names, does not allow the call.
    #[error("{0}")]
    Invalid(String),
}

/// The result of an operation on backups.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns whether the reason is a full disk or quota.
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::Store(error) => error.is_no_space(),
            Error::Io { source, .. } => is_no_space(source),
            _ => false,
        }
    }

    /// Returns whether the reason is an object that does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Returns a function that makes the error of a failed operation on `object`.
    pub(crate) fn io(op: &'static str, object: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let object = object.into();
        move |source| Error::Io { op, object, source }
    }
}

/// Returns what to do after the error `source` of the operation `op`.
fn advice(op: &str, source: &io::Error) -> &'static str {
    match (is_no_space(source), op) {
        (true, "restore") => "; free some space, then try again",
        (true, _) => "; older backups are complete: free some space, then try again",
        (false, _) => "",
    }
}

fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn listed(ids: &[u64]) -> String {
    match ids {
        [] => "no backups".into(),
        [one] => format!("only backup {one}"),
        [first, .., last] => format!("{} backups from {first} to {last}", ids.len()),
    }
}
