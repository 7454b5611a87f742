//! Exceptions in plyvel's form. Their texts begin with LevelDB's words for the kind of the error.
use crate::error::exception;
use pyo3::{exceptions::PyRuntimeError, prelude::*, sync::PyOnceLock};
use terrace::Error;

const MODULE: &str = "terracedb.plyvel";
/// The module with the exception classes. It is set by the first import.
static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// Returns the exception for `error`.
pub fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let (class, kind) = match error {
        Error::Closed => return PyRuntimeError::new_err("the database, snapshot or iterator is closed"),
        Error::Corrupt { .. } | Error::Bug(_) => ("CorruptionError", "Corruption"),
        // A file that the store names.
        Error::Missing { what, .. } if !what.starts_with("store") => ("CorruptionError", "Corruption"),
        Error::Missing { .. } | Error::Invalid(_) => ("Error", "Invalid argument"),
        Error::Unsupported(_) => ("Error", "Not implemented"),
        _ => ("IOError", "IO error"),
    };
    let text = match error {
        Error::InUse { path, detail } => format!("{kind}: lock {path}/LOCK: already held by process: {detail}"),
        other => format!("{kind}: {other}"),
    };
    exception(py, &CLASSES, MODULE, class, text)
}

/// Returns the exception for a use of a raw iterator that is not at a pair.
pub fn invalid_iterator(py: Python<'_>) -> PyErr {
    exception(py, &CLASSES, MODULE, "IteratorInvalidError", "the iterator is not at a pair; check valid() first".into())
}
