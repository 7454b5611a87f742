//! The interface of file systems: one flat directory of append-only files.
//!
//! Real directories, memory, block devices, and the crash, fault and scramble models of
//! `terrace-sim` implement it. Power cuts, full disks and torn files happen to files, not to
//! tables, so the models belong below storage (docs/decisions/0003-file-seam.md). The engine never
//! sees this interface.
use crate::{
    capacity::Capacity,
    file::{ReadFile, WriteFile},
    folders::Folders,
    journal::JournalCommit,
};
use std::{fs::File, io, sync::Arc};
use terrace_format::Medium;

/// One entry of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name without the directory. Files below `lost/` are not listed.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
}

/// The use of a new file, by which a file system decides where to place it and how to write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUse {
    /// A log that is appended to and synced many times. Where `how` is [`WalWriteMode::Map`],
    /// zeros may follow the appended bytes until the writer [ends](WriteFile::end) or is dropped,
    /// and after a kill.
    Log(WalWriteMode),
    /// A table that is written once and lives the longer the deeper its level.
    Table {
        /// The level of the LSM-tree.
        level: usize,
    },
}

/// How appends to a log reach the operating system; the bytes of the file are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WalWriteMode {
    /// By one system call each, as LevelDB does.
    #[default]
    Write,
    /// Through a mapping of the preallocated file, where the file system supports that.
    Map,
}

/// A directory. Names are plain file names, or `lost/NAME`.
pub trait FileSystem: Send + Sync {
    /// The directory, for messages.
    fn name(&self) -> String;
    /// The medium that the format file of a store in this directory states.
    fn medium(&self) -> Medium {
        Medium::Directory
    }
    /// Makes the directory and its parents; does nothing to an existing one. Syncs the parent, so
    /// the directory is durable at return.
    fn make_directory(&self) -> io::Result<()>;
    /// Whether the directory exists.
    fn exists(&self) -> io::Result<bool>;
    /// Creates an empty file; `AlreadyExists` if the name is taken.
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>>;
    /// Creates a file for a known use, as [`create`](FileSystem::create) does. A file system
    /// ignores a use that it cannot honour.
    fn create_for(&self, name: &str, file_use: FileUse) -> io::Result<Box<dyn WriteFile>> {
        let _ = file_use;
        self.create(name)
    }
    /// Opens an existing file for reading.
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>>;
    /// Renames `from` to `to` atomically, replacing `to`. Durable after
    /// [`sync_directory`](FileSystem::sync_directory).
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Gives the file `from` the second name `to`, or copies it where there are no hard links.
    /// Replaces nothing: `AlreadyExists`. Makes `lost/` if `to` needs it.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;
    /// The descriptor of the directory, from which another directory can link files; `None` if
    /// there is none.
    fn directory(&self) -> Option<Arc<File>> {
        None
    }
    /// Makes the file `name` of another directory the file `to` of this one: by a hard link (true)
    /// where that is possible, else by copying its bytes (false). Replaces nothing:
    /// `AlreadyExists`.
    fn take(&self, from: &dyn FileSystem, name: &str, to: &str) -> io::Result<bool> {
        copy(from, name, self, to).map(|()| false)
    }
    /// Removes a name.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The folders below the directory; `None` where there can be none.
    fn folders(&self) -> Option<&dyn Folders> {
        None
    }
    /// Lists the files in the directory itself.
    fn list(&self) -> io::Result<Vec<DirEntry>>;
    /// Lists the names in `lost/`, without that prefix, in any order.
    fn list_lost(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// Makes all names created, renamed and removed so far durable, those in `lost/` too.
    fn sync_directory(&self) -> io::Result<()>;
    /// Makes the bytes of an existing file durable. For files that this process did not write.
    fn sync_file(&self, name: &str) -> io::Result<()>;
    /// Takes the lock file `LOCK`, exclusively or shared, for as long as the guard lives.
    /// `WouldBlock` if it is held. Shared on a missing file or a read-only file system succeeds
    /// without making one.
    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>>;
    /// The journal by which the file system makes many files durable at once; `None` where there
    /// is none.
    fn journal(&self) -> Option<&dyn JournalCommit> {
        None
    }
    /// The space and the descriptors that files take; `None` where neither is bounded nor counted.
    fn capacity(&self) -> Option<&dyn Capacity> {
        None
    }
}

/// The lock of a directory, held until it is dropped.
pub trait DirectoryLock: Send + Sync {
    /// Fails if an exclusive lock no longer protects the directory, because its lock file was
    /// removed or replaced: another process can have opened the store. Costs one system call.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The lock of a directory that needs none.
impl DirectoryLock for () {}

/// The journal of `fs`, or the reason why there is none.
pub fn journal_of(fs: &dyn FileSystem) -> Result<&dyn JournalCommit, String> {
    fs.journal().ok_or_else(|| "it has no one journal that commits all of its files".into())
}

/// Copies a file between directories. Removes an incomplete copy if something fails.
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
    copy().inspect_err(|_| drop(here.remove(to))) // Best effort: an incomplete copy is useless.
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
