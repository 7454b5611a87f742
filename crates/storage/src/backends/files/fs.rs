//! The seam under the file backend: one flat directory of append-only files.
//!
//! Real directories, memory, and the crash, fault and scramble models of `terrace-sim` implement it. It sits
//! below the placement because power cuts, full disks and torn files happen to files, not to tables
//! (docs/decisions/0003-file-seam.md). Only the file backend uses it; the engine never sees it.
use super::folders::Folders;
use crate::{config::WalWriteMode, placement::Hint};
use std::{fs::File, io, ops::Range, os::fd::BorrowedFd, sync::Arc, time::Duration};
use terrace_format::{Medium, block::Bytes};

/// One entry of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name without the directory. Files below `lost/` are not listed.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
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
    /// As [`create`](FileSystem::create), for a log. Whoever cannot do what `how` says writes instead. Until its writer
    /// [ends](WriteFile::end) or is dropped, and after a kill, zeros may follow what was appended.
    fn create_log(&self, name: &str, how: WalWriteMode) -> io::Result<Box<dyn WriteFile>> {
        let _ = how;
        self.create(name)
    }
    /// As [`create`](FileSystem::create), for a table, whose `hint` tells how long it may live.
    fn create_table(&self, name: &str, hint: &Hint) -> io::Result<Box<dyn WriteFile>> {
        let _ = hint;
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
    /// Gives back the space of `range`, which reads as zeros from then on; the size stays. Does nothing to a file that has another
    /// name besides, nor where space cannot be given back. `range` begins and ends at multiples of 4096 bytes.
    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        let _ = (name, range);
        Ok(())
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
    /// From now on reads of `name` show what the device has of it, but for bytes that still wait to be written: a sync that failed
    /// may have left others in memory which the device never got, and which no later sync saves. Does nothing where reads come
    /// from the device anyway.
    fn forget_cached(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Ok(())
    }
    /// How many files may be open at once, where each takes a descriptor of the process.
    fn open_files_max(&self) -> Option<u64> {
        None
    }
    /// Commits the file system's journal, once: all names as they are now survive a power cut, and all files whose bytes were
    /// [written back](WriteFile::write_back). A promise only where [`can_commit`](FileSystem::can_commit).
    fn commit(&self) -> io::Result<()>;
    /// Whether a commit of the journal keeps its promise here, and then how often it commits by itself
    /// ([`Duration::MAX`]: never); or why not. The directory need not exist yet.
    fn can_commit(&self) -> Result<Duration, String>;
    /// Commits of the journal that are over, as the kernel counts them. An aborted journal goes on counting: only a
    /// [`beat`](FileSystem::beat) behind this call tells.
    fn commits(&self) -> io::Result<u64>;
    /// Takes part in the transaction that runs, so that the journal has something to commit. Fails once it was aborted.
    fn beat(&self) -> io::Result<()>;
    /// Bytes that files may still take; `None` where nobody knows.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// Makes `name` a file that takes `bytes` of space and whose contents do not matter; removes it for 0. Does nothing where
    /// space cannot be allocated without writing.
    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        let _ = (name, bytes);
        Ok(())
    }
    /// Whether the kernel tells of single files which transaction of the journal they wait for, or why not.
    fn can_tell_transactions(&self) -> Result<(), String> {
        Err("nothing here tells of transactions".into())
    }
    /// The transaction that commits everything of `file` that was [written back](WriteFile::write_back). Numbers wrap.
    fn transaction(&self, _file: &dyn WriteFile) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The newest transaction that is committed. Fails once the journal was aborted.
    fn committed(&self) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Takes the lock file `LOCK`, exclusively or shared, for as long as the guard lives. `WouldBlock` if it is held.
    /// Shared on a missing file or a read-only file system succeeds without making one.
    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn Send + Sync>>;
    /// Fails if the lock file that was locked exclusively last is not under its name any more: then another process can have
    /// opened the store, too. One question to the kernel.
    fn check_lock(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file being written. Appends only.
pub trait WriteFile: Send + Sync {
    /// Appends all of `bytes`, or fails having appended any part of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Everything appended, and the size, survives a power cut (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Whether a sync of something else has saved all of it since it was finished, so that none of its own is due.
    fn is_saved(&self) -> bool {
        false
    }
    /// Nothing more is appended: what is kept for that may go. From now on the file keeps its bytes and its length.
    fn end(&mut self) {}
    /// A second handle on the same open file, through which it can be synced and written back while it grows through this one.
    fn twin(&self) -> io::Result<Box<dyn WriteFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// For questions to the kernel; `None` where this is no file of its own.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Everything appended is written to the device; what finds it there becomes durable with the next
    /// [`commit`](FileSystem::commit). Blocks for as long as that takes, and forces no commit itself.
    fn write_back(&self) -> io::Result<()>;
}

/// A file being read.
pub trait ReadFile: Send + Sync {
    /// Fills `buf` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Size in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// As [`read_exact_at`](ReadFile::read_exact_at), `bytes` into memory of their own.
    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buf = vec![0; bytes];
        self.read_exact_at(&mut buf, offset)?;
        Ok(buf)
    }
    /// Says that `bytes` at `offset` will be read soon. A hint.
    fn expect(&self, _offset: u64, _bytes: u64) {}
    /// All its bytes, where they lie in memory; `None` if this kind of file cannot show them. The file must have been
    /// written completely, and must not be changed while the answer lives.
    fn map(&self) -> io::Result<Option<Bytes>> {
        Ok(None)
    }
}

/// Copies a file between directories. What was copied when something fails is removed.
pub(super) fn copy(from: &dyn FileSystem, name: &str, here: &(impl FileSystem + ?Sized), to: &str) -> io::Result<()> {
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
