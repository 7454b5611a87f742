//! Converts errors of devices to errors of file systems.
use std::io::{Error, ErrorKind};

/// Converts a device error to an I/O error.
pub fn io(error: terrace_device::Error) -> Error {
    let kind = match &error {
        terrace_device::Error::Io { source, .. } => source.kind(),
        _ => ErrorKind::InvalidInput,
    };
    Error::new(kind, error)
}

/// Returns an error for a device whose contents are not those of a store.
pub(super) fn invalid(why: String) -> Error {
    Error::new(ErrorKind::InvalidData, why)
}
