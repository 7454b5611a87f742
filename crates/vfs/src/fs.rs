//! The interface of file systems: one flat directory of append-only files.
//!
//! Real directories, directories in memory and raw devices implement this interface, and so do the
//! models of `terrace-sim` for crashes, faults and scrambled reads. The models are below the
//! storage crate, because power cuts, full disks and torn writes affect files and not tables
//! (docs/decisions/0003-file-seam.md). The engine does not use this interface directly.
use crate::{
    OpenDirectory,
    capacity::Capacity,
    file::{ReadFile, WriteFile},
    folders::Folders,
    journal::JournalCommit,
};
use std::io;
use terrace_format::Medium;

/// One entry of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name without the directory. Files below `lost/` are not listed.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
}

/// The purpose of a new file. A file system may use it to decide where to place the file and how
/// to write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUse {
    /// A log that is appended to and synced many times. In mode [`WalWriteMode::Map`], the file may
    /// have zeros after the appended bytes until the writer [ends](WriteFile::end) the file or is
    /// dropped. If the process is killed, the zeros stay in the file.
    Log(WalWriteMode),
    /// A table, which is written once. Tables of deeper levels exist longer.
    Table {
        /// The level of the LSM-tree.
        level: usize,
    },
}

/// How appends to a log reach the operating system. The bytes of the file are the same in both
/// modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WalWriteMode {
    /// One system call for each append, as in LevelDB.
    #[default]
    Write,
    /// Through a memory mapping of the preallocated file, if the file system supports that.
    Map,
}

/// A directory of files. A name is a plain file name, or `lost/NAME`.
pub trait FileSystem: Send + Sync {
    /// Returns the path of the directory, for messages.
    fn name(&self) -> String;
    /// Returns the medium that is recorded in the format file of a store in this directory.
    fn medium(&self) -> Medium {
        Medium::Directory
    }
    /// Creates the directory and its parents. Does nothing if it exists. Syncs the parent, so that
    /// the directory is durable at return.
    fn make_directory(&self) -> io::Result<()>;
    /// Returns whether the directory exists.
    fn exists(&self) -> io::Result<bool>;
    /// Creates an empty file. Returns `AlreadyExists` if the name is taken.
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>>;
    /// Creates a file as [`create`](FileSystem::create) does, for a known purpose. A file system
    /// ignores the purpose if it does not support it.
    fn create_for(&self, name: &str, file_use: FileUse) -> io::Result<Box<dyn WriteFile>> {
        let _ = file_use;
        self.create(name)
    }
    /// Opens an existing file for reading.
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>>;
    /// Renames `from` to `to` atomically. An existing file `to` is replaced. The new name is
    /// durable after [`sync_directory`](FileSystem::sync_directory).
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Gives the file `from` the second name `to`. If there are no hard links, copies the file. The
    /// call replaces no file: it returns `AlreadyExists` if `to` is taken. Creates `lost/` if `to`
    /// is in it.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;
    /// Returns the open directory, so that another directory can make hard links to its files;
    /// `None` if this is not a directory of the operating system.
    fn directory(&self) -> Option<OpenDirectory> {
        None
    }
    /// Makes the file `name` of another directory the file `to` of this directory. Returns true if
    /// it made a hard link, and false if it copied the bytes because a link was not possible. The
    /// call replaces no file: it returns `AlreadyExists` if `to` is taken.
    fn take(&self, from: &dyn FileSystem, name: &str, to: &str) -> io::Result<bool> {
        copy(from, name, self, to).map(|()| false)
    }
    /// Removes a name.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns the folders below the directory; `None` if the file system supports none.
    fn folders(&self) -> Option<&dyn Folders> {
        None
    }
    /// Lists the files in the directory itself.
    fn list(&self) -> io::Result<Vec<DirEntry>>;
    /// Lists the names in `lost/`, without that prefix, in any order.
    fn list_lost(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// Makes all names that were created, renamed or removed so far durable, including those in
    /// `lost/`.
    fn sync_directory(&self) -> io::Result<()>;
    /// Makes the bytes of an existing file durable. Used for files that this process did not write.
    fn sync_file(&self, name: &str) -> io::Result<()>;
    /// Takes the lock file `LOCK`, exclusively or shared, until the returned guard is dropped.
    /// Returns `WouldBlock` if another holder prevents that. If the lock file is missing or the
    /// file system is read-only, a shared lock succeeds without creating the file.
    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>>;
    /// Returns the file system's journal, which makes many files durable in one commit; `None` if
    /// it has none.
    fn journal(&self) -> Option<&dyn JournalCommit> {
        None
    }
    /// Returns the space and the descriptors that files take; `None` if neither is limited or
    /// counted.
    fn capacity(&self) -> Option<&dyn Capacity> {
        None
    }
}

/// The lock of a directory, held until it is dropped.
pub trait DirectoryLock: Send + Sync {
    /// Returns an error if an exclusive lock does not protect the directory any more, because its
    /// lock file was removed or replaced. Another process may then have opened the store. The check
    /// costs one system call.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A lock without effect, for a directory that needs no lock.
impl DirectoryLock for () {}

/// Returns the journal of `fs`. The error is the reason why `fs` has no journal that can be used.
pub fn journal_of(fs: &dyn FileSystem) -> Result<&dyn JournalCommit, String> {
    fs.journal().ok_or_else(|| "it has no one journal that commits all of its files".into())
}

/// Copies a file between directories. After an error, removes the incomplete copy.
pub fn copy(from: &dyn FileSystem, name: &str, here: &(impl FileSystem + ?Sized), to: &str) -> io::Result<()> {
    const PIECE_BYTES: u64 = 1 << 20;
    let source = from.open(name)?;
    let (mut target, mut offset, bytes) = (here.create(to)?, 0, source.bytes()?);
    let mut copy = || {
        while offset < bytes {
            let piece = (bytes - offset).min(PIECE_BYTES);
            target.append(&source.read_at(offset, piece as usize)?)?;
            offset += piece;
        }
        Ok(())
    };
    copy().inspect_err(|_| drop(here.remove(to))) // best effort: an incomplete copy is useless
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_file_system_has_at_most_twenty_methods() {
        let source = include_str!("fs.rs");
        let (_, from) = source.split_once("pub trait FileSystem: Send + Sync {").expect("the trait");
        let (body, _) = from.split_once("\n}\n").expect("its end");
        let methods = body.lines().filter(|line| line.starts_with("    fn ")).count();
        assert!((10..=20).contains(&methods), "{methods} methods");
    }
}
