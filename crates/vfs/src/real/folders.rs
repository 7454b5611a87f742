//! Folders of a real file system. They become durable by a sync of the whole file system.
use super::{RealFs, folder::kind_of};
use crate::folders::{Folders, Inside, Room};
use nix::{
    errno::Errno,
    sys::{
        stat::{FileStat, SFlag},
        statvfs::fstatvfs,
    },
    unistd::syncfs,
};
use std::{
    fs::File,
    io::{self, ErrorKind},
};

impl Folders for RealFs {
    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.witness()?;
        self.folder.make_folder(name).map_err(|e| self.with_inodes(e))
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.folder.remove_folder(name)
    }

    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>> {
        let is_folder = |found: &FileStat| kind_of(found.st_mode) == SFlag::S_IFDIR;
        let entries = self.folder.entries(name)?.into_iter();
        Ok(entries.map(|(name, found)| Inside { name, is_folder: is_folder(&found) }).collect())
    }

    fn link_into(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.link_within(from, to).map_err(|e| self.with_inodes(e))
    }

    /// Syncs the whole file system, so that thousands of files cost only one commit. Reports every
    /// writeback error since the store created its first folder, both of open and of closed files.
    fn sync_folders(&self, _: &[String]) -> io::Result<()> {
        Ok(crate::mapping::checked(syncfs(self.witness()?))?)
    }

    fn name_bytes_max(&self) -> io::Result<usize> {
        Ok(fstatvfs(&*self.folder.held()?)?.name_max() as usize)
    }

    fn room(&self) -> io::Result<Room> {
        let found = fstatvfs(&*self.folder.held()?)?;
        let counted = |count| if found.files() == 0 { u64::MAX } else { count };
        Ok(Room { left: counted(found.files_available()), all: counted(found.files()) })
    }
}

impl RealFs {
    /// Returns a descriptor of the store's directory that was opened before the store created its
    /// first folder. The time matters, because the kernel reports a writeback error only to
    /// descriptors that were open when the error occurred.
    fn witness(&self) -> io::Result<&File> {
        if let Some(witness) = self.witness.get() {
            return Ok(witness);
        }
        let opened = self.folder.open_folder("")?;
        Ok(self.witness.get_or_init(|| opened))
    }

    /// Makes an out-of-space error more precise: if the file system has run out of inodes and not
    /// of bytes, the text of the result mentions inodes.
    pub(super) fn with_inodes(&self, error: io::Error) -> io::Error {
        if error.raw_os_error() != Some(Errno::ENOSPC as i32) {
            return error;
        }
        match self.folder.held().and_then(|held| Ok(fstatvfs(&*held)?)) {
            Ok(found) if found.files() > 0 && found.files_available() == 0 => {
                let free = found.blocks_available() * found.fragment_size();
                let message =
                    format!("the file system has no inode left for another file, though {free} bytes are free");
                io::Error::new(ErrorKind::StorageFull, message)
            }
            _ => error,
        }
    }
}
