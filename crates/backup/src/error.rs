//! The error type of backups.
use std::io;

/// The error of a failed operation on backups. No error changes the store or an older backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation of the store failed, such as the checkpoint.
    #[error(transparent)]
    Store(#[from] terrace::Error),
    /// The operating system, or the target of the backups, reported an error.
    #[error("{op} {object}: {source}{}", advice(source))]
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
        /// What is wrong with it.
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
    /// Another process creates or removes backups at the same place.
    #[error("{0} is in use by another process that creates or removes backups; try again later")]
    InUse(String),
    /// An argument is invalid. The call has done nothing.
    #[error("{0}")]
    Invalid(String),
}

/// The result of an operation on backups.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns a function that makes the error of a failed operation on `object`.
    pub(crate) fn io(op: &'static str, object: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let object = object.into();
        move |source| Error::Io { op, object, source }
    }
}

/// Returns what to do after the error `source`.
fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; older backups are complete: free some space, then try again"
        }
        _ => "",
    }
}

fn listed(ids: &[u64]) -> String {
    match ids {
        [] => "no backups".into(),
        [one] => format!("only backup {one}"),
        [first, .., last] => format!("{} backups from {first} to {last}", ids.len()),
    }
}
