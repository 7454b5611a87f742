//! Durability of finished files: one tracker for each durability mode, one file for each tracker
//! (docs/durability.md, "Tiers"). This module knows file systems only.
use crate::{Error, IoStats, Purpose, Result, SyncKind};
use std::{io, time::Instant};
use terrace_vfs::{FileSystem, JournalCommit, WriteFile};

mod batch;
mod handle;
mod journal;
mod mode;
mod none;
mod sync;
mod waiting;

pub use batch::{BatchTracker, Way};
pub use handle::{Completer, DurabilityHandle, State};
pub use journal::{Evidence, JournalTracker};
pub use mode::DurabilityMode;
pub use none::NoTracker;
pub use sync::{SyncTracker, sync_directory};

/// A finished file, by the descriptor that wrote it: the kernel reports writeback errors per
/// descriptor, so a reopened one could miss them.
pub struct Finished {
    /// The path, for messages.
    pub name: String,
    /// The descriptor of the writer.
    pub file: Box<dyn WriteFile>,
    /// Bytes written.
    pub bytes: u64,
    /// The purpose of the bytes.
    pub purpose: Purpose,
}

impl Finished {
    /// Whether the file is durable already.
    fn is_saved(&self) -> bool {
        self.file.is_saved()
    }

    /// Writes the bytes back, unless they are durable. Counts a writeback that was a whole sync.
    fn write_back(&self, io_stats: &IoStats) -> Result<()> {
        if self.is_saved() {
            return Ok(());
        }
        let start = Instant::now();
        self.file.write_back().map_err(|e| Error::io("write back", &self.name, e))?;
        if self.is_saved() {
            io_stats.synced(SyncKind::FileSystem, self.bytes, start.elapsed());
        }
        Ok(())
    }
}

/// The journal of `fs`; an error of the kind `Unsupported` where there is none.
fn journal_of(fs: &dyn FileSystem) -> io::Result<&dyn JournalCommit> {
    terrace_vfs::journal_of(fs).map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why))
}

/// Makes finished files durable, in the way of one durability mode.
pub trait DurabilityTracker: Send + Sync {
    /// The name of the mode.
    fn durability_mode(&self) -> &'static str;
    /// Whether anything is promised. Otherwise logs and roots are not synced either.
    fn promises(&self) -> bool {
        true
    }
    /// Takes over the files of one job and their directory entries. Does the work that is due
    /// first if too many files wait.
    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, io_stats: &IoStats) -> Result<DurabilityHandle>;
    /// Cancels the sync of the file `name`, which became obsolete before an edit with it was
    /// committed. If its sync has not begun, it will not be made, and the handle of its job covers
    /// the other files only. Takes no I/O, unlike dropping the result.
    fn cancel_sync(&self, _name: &str) -> Option<Finished> {
        None
    }
    /// Whether handles complete by commits that the file system makes anyway, so that a forced
    /// commit is for emergencies.
    fn waits_for_fs_commit(&self) -> bool {
        false
    }
    /// Makes progress at the pace of the mode; false if nothing is pending.
    fn advance(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<bool>;
    /// Decides every pending handle.
    fn commit(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()>;
}
