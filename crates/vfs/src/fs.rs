//! The seam under the file backend: one flat directory of append-only files.
//!
//! Real directories, memory, and the crash, fault and scramble models of `terrace-sim` implement it. It sits
//! below the placement because power cuts, full disks and torn files happen to files, not to tables
//! (docs/decisions/0003-file-seam.md). Only the file backend uses it; the engine never sees it.
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
    /// Size in bytes.
    pub bytes: u64,
}

/// The use of a new file, by which a file system decides where to place it and how to write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUse {
    /// A log that is appended to and synced many times. Where `how` is [`WalWriteMode::Map`], zeros may follow the appended
    /// bytes until the writer [ends](WriteFile::end) or is dropped, and after a kill.
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
    /// For messages: the directory.
    fn name(&self) -> String;
    /// What the marker of a store here says of where it is.
    fn medium(&self) -> Medium {
        Medium::Directory
    }
    /// Makes the directory and its parents; fine if it is there. Durable once the parent is synced, which it does.
    fn make_directory(&self) -> io::Result<()>;
    /// Whether the directory is there.
    fn exists(&self) -> io::Result<bool>;
    /// A new empty file; `AlreadyExists` if the name is taken.
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>>;
    /// As [`create`](FileSystem::create), for a file of which the use is known. A use that the file system cannot honour is
    /// ignored.
    fn create_for(&self, name: &str, file_use: FileUse) -> io::Result<Box<dyn WriteFile>> {
        let _ = file_use;
        self.create(name)
    }
    /// An existing file, to read.
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>>;
    /// Moves `from` over `to`, atomically. Durable after [`sync_directory`](FileSystem::sync_directory).
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// A second name for the same file (a copy where there are no links); replaces nothing: `AlreadyExists`.
    /// Makes `lost/` if `to` needs it.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;
    /// The open directory, from which other directories can link to files of this one, if it is one.
    fn directory(&self) -> Option<Arc<File>> {
        None
    }
    /// The file `name` of another directory becomes `to` here: by a link where that can be (true), else by a copy of its bytes
    /// (false). Replaces nothing: `AlreadyExists`.
    fn take(&self, from: &dyn FileSystem, name: &str, to: &str) -> io::Result<bool> {
        copy(from, name, self, to).map(|()| false)
    }
    /// Removes a name.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Folders below the directory; `None` where there can be none.
    fn folders(&self) -> Option<&dyn Folders> {
        None
    }
    /// Every file in the directory itself.
    fn list(&self) -> io::Result<Vec<DirEntry>>;
    /// Names of the files in `lost/`, without that prefix, in any order.
    fn list_lost(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// Names made, moved and removed so far survive a power cut (also those in `lost/`).
    fn sync_directory(&self) -> io::Result<()>;
    /// The bytes of an existing file survive a power cut; for files that somebody else wrote.
    fn sync_file(&self, name: &str) -> io::Result<()>;
    /// Takes the lock file `LOCK`, exclusively or shared, for as long as the guard lives. `WouldBlock` if it is held.
    /// Shared on a missing file or a read-only file system succeeds without making one.
    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn DirectoryLock>>;
    /// The journal by which the file system makes many files durable at once; `None` where there is none.
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
    /// Fails if an exclusive lock no longer protects the directory, because its lock file was removed or replaced: another
    /// process can have opened the store. Costs one system call.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// No lock; for directories that nobody locks.
impl DirectoryLock for () {}

/// The journal of `fs`, or the reason why there is none.
pub fn journal_of(fs: &dyn FileSystem) -> Result<&dyn JournalCommit, String> {
    fs.journal().ok_or_else(|| "it has no one journal that commits all of its files".into())
}

/// Copies a file between directories. What was copied when something fails is removed.
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
    copy().inspect_err(|_| drop(here.remove(to))) // best effort: half a copy helps nobody
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
