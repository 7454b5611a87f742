//! Converts the engine's errors to Python exceptions. Each kind of error has an exception class in
//! the Python module `terracedb._errors`. The text of an exception is the engine's message.
use pyo3::{prelude::*, sync::PyOnceLock};
use terrace::Error;

/// Returns the exception for `error`.
pub fn raised(py: Python<'_>, error: &Error) -> PyErr {
    terracedb_exception(py, class(error), error.to_string())
}

/// Returns the exception for an error of a backup.
pub fn raised_by_backup(py: Python<'_>, error: &terrace_backup::Error) -> PyErr {
    use terrace_backup::Error;
    let class = match error {
        Error::Store(error) => return raised(py, error),
        Error::Damaged { .. } => "CorruptError",
        Error::Missing { .. } => "MissingError",
        Error::InUse(_) => "InUseError",
        Error::Invalid(_) => "InvalidError",
        error if error.is_no_space() => "NoSpaceError",
        Error::Io { .. } => "StorageError",
        _ => "Error",
    };
    terracedb_exception(py, class, error.to_string())
}

fn terracedb_exception(py: Python<'_>, class: &str, text: String) -> PyErr {
    /// The module with the exception classes. It is set by the first import.
    static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    exception(py, &CLASSES, "terracedb._errors", class, text)
}

/// Returns an exception of the class `class` in `module`, which is kept in `loaded`.
pub fn exception(py: Python<'_>, loaded: &PyOnceLock<Py<PyModule>>, module: &str, class: &str, text: String) -> PyErr {
    let module = loaded.get_or_try_init(py, || py.import(module).map(Bound::unbind));
    match module.and_then(|module| module.bind(py).getattr(class)).and_then(|class| class.call1((text,))) {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error, // the import failed, because the package is incomplete
    }
}

fn class(error: &Error) -> &'static str {
    match error {
        Error::Corrupt { .. } => "CorruptError",
        Error::Io { .. } => "StorageError",
        error if error.is_no_space() => "NoSpaceError",
        Error::InUse { .. } => "InUseError",
        Error::Missing { .. } => "MissingError",
        Error::Unsupported(_) => "UnsupportedError",
        Error::Invalid(_) => "InvalidError",
        Error::ReadOnly => "ReadOnlyError",
        Error::Closed => "ClosedError",
        Error::FailStopped(_) => "StoppedError",
        Error::Conflict { .. } => "ConflictError",
        Error::LockTimeout { .. } => "LockTimeoutError",
        Error::Deadlock { .. } => "DeadlockError",
        _ => "Error",
    }
}
