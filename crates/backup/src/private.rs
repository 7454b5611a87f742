//! Directories that other users cannot read, because they contain the data of a store. On Windows a
//! new directory has the access rights of its parent, and this module does not change them.
use std::{
    fs::{self, DirBuilder},
    io,
    path::Path,
};

/// The owner may do everything, others nothing.
#[cfg(unix)]
const MODE: u32 = 0o700;

/// Creates the directory `path`, which must not exist.
pub fn create(path: &Path) -> io::Result<()> {
    #[allow(unused_mut, reason = "changed on Unix only")]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, MODE);
    builder.create(path)
}

/// On Unix, makes the existing directory `path` unreadable for other users.
pub fn protect(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(MODE))?;
    fs::metadata(path).map(drop)
}
