//! Opens files of a store by their paths.
use super::system;
use std::{
    fs::{File, FileType, OpenOptions},
    io::{self, ErrorKind},
    path::Path,
};

/// A directory, as other directories and the text log use it.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
#[derive(Clone, Debug)]
pub struct OpenDirectory(pub(super) std::path::PathBuf);

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
impl OpenDirectory {
    /// Renames a file within the directory.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        rename(&self.0.join(from), &self.0.join(to))
    }

    /// Opens a file to append to it. Creates it if it is missing. Refuses anything that is not a
    /// regular file. Also refuses a file with a second hard link, because it may be another
    /// program's file under its other name.
    pub(crate) fn open_to_append(&self, name: &str) -> io::Result<File> {
        let file = open(&self.0.join(name), OpenOptions::new().append(true).create(true))?;
        if system::has_second_name(&file)? { Err(ErrorKind::InvalidInput.into()) } else { Ok(file) }
    }
}

/// Renames a file or a directory. An existing file `to` is replaced. The call is repeated while
/// another program has the file open.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    system::patiently(|| std::fs::rename(from, to))
}

/// Opens a file of a store for reading, for tools that read single files. A symbolic link, or
/// anything else that is not a regular file, is refused, as in a store. Folders in the path may be
/// symbolic links.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub fn open_store_file(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Opens a regular file. A symbolic link is not followed, because a link could lead a write into a
/// foreign file, and the open of a FIFO does not wait.
pub(super) fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let file = match system::open(path, how) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Err(e),
        Err(e) => return Err(refusal(path).unwrap_or(e)),
        Ok(file) => file,
    };
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(file),
        kind => Err(not_a_file(path, kind)),
    }
}

/// Returns the error for what exists at `path`, if this is not a regular file.
fn refusal(path: &Path) -> Option<io::Error> {
    let kind = path.symlink_metadata().ok()?.file_type();
    (!kind.is_file()).then(|| not_a_file(path, kind))
}

fn not_a_file(path: &Path, kind: FileType) -> io::Error {
    let name = path.file_name().unwrap_or_default().display();
    let what = match kind {
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a directory",
        _ => "a FIFO, a socket or a device",
    };
    let message = format!("{name} is {what}, not a regular file; replace it with the file itself");
    io::Error::new(ErrorKind::InvalidInput, message)
}
