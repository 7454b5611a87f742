//! Raw devices on systems where Terrace has none: every use is refused.
use super::{RawFs, Sizes, Superblock};
use crate::{Error, Result, StorageConfig, placement::OpenMode};
use std::{path::Path, sync::Arc};
use terrace_device::BlockDevice;

/// Returns whether `path` would be a device for a store elsewhere: a regular file.
pub fn is_device(path: &Path) -> bool {
    path.is_file()
}

/// Returns an error.
pub fn open(path: &Path, _: OpenMode, _: &StorageConfig) -> Result<Arc<RawFs>> {
    Err(refused(path))
}

/// Returns an error.
pub fn prepare<E: From<Error>>(
    path: &Path,
    _: impl FnOnce(u64) -> std::result::Result<Sizes, E>,
    _: bool,
) -> std::result::Result<Superblock, E> {
    Err(E::from(refused(path)))
}

/// Returns an error.
pub fn make_file(path: &Path, _: u64) -> Result<()> {
    Err(refused(path))
}

/// Returns an error.
pub fn open_damaged(path: &Path) -> Result<Arc<dyn BlockDevice>> {
    Err(refused(path))
}

fn refused(path: &Path) -> Error {
    let text = format!("{} is not the directory of a store; stores on devices need 64-bit Linux", path.display());
    Error::Unsupported(text)
}
