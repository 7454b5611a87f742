//! An open directory as other directories and the text log use it.
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, openat, renameat},
    sys::stat::{Mode, SFlag, fstat},
    unistd::linkat,
};
use std::{fs::File, io, sync::Arc};

/// An open directory.
#[derive(Clone, Debug)]
pub struct OpenDirectory(pub(super) Arc<File>);

impl OpenDirectory {
    /// Renames a file within the directory.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&*self.0, from, &*self.0, to)?)
    }

    /// Opens a file to append to it. Creates it if it is missing. Refuses anything that is not a
    /// regular file. Also refuses a file with a second hard link, because it may be another
    /// program's file under its other name.
    pub(crate) fn open_to_append(&self, name: &str) -> io::Result<File> {
        let how = OFlag::O_WRONLY
            | OFlag::O_APPEND
            | OFlag::O_CREAT
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_CLOEXEC;
        let file = File::from(openat(&*self.0, name, how, Mode::from_bits_truncate(0o666))?);
        let found = fstat(&file)?;
        let kind = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
        if kind == SFlag::S_IFREG && found.st_nlink == 1 { Ok(file) } else { Err(Errno::EINVAL.into()) }
    }

    /// Gives the file `name` of this directory the name `to` in `folder`.
    pub(super) fn link(&self, name: &str, folder: &File, to: &str) -> io::Result<()> {
        Ok(linkat(&*self.0, name, folder, to, AtFlags::empty())?)
    }
}
