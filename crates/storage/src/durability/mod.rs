//! Durability trackers, which make finished files durable. There is one tracker for each
//! durability mode (docs/durability.md, "Durability modes"), each in its own file. This module
//! depends only on file systems, not on stores.
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

/// A finished file, with the descriptor that wrote it. The tracker must sync this descriptor: the
/// kernel reports a writeback error only to descriptors that were open at the time, so a
/// descriptor that is opened later could miss the error.
pub struct Finished {
    /// The path, for messages.
    pub name: String,
    /// The descriptor of the writer.
    pub file: Box<dyn WriteFile>,
    /// The number of bytes written to the file.
    pub bytes: u64,
    /// The purpose under which the bytes of the file are counted.
    pub purpose: Purpose,
}

impl Finished {
    /// Returns whether another sync has made the file durable already.
    fn is_saved(&self) -> bool {
        self.file.is_saved()
    }

    /// Writes back the bytes of the file, unless the file is already durable. On some file systems
    /// the write-back is a whole sync, which makes the file durable; then it is counted as a sync.
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

/// Returns the journal of `fs`. If `fs` has no journal, returns an error of the kind
/// `Unsupported`.
fn journal_of(fs: &dyn FileSystem) -> io::Result<&dyn JournalCommit> {
    terrace_vfs::journal_of(fs).map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why))
}

/// Makes finished files durable in one of the durability modes.
pub trait DurabilityTracker: Send + Sync {
    /// Returns the name of the durability mode.
    fn durability_mode(&self) -> &'static str;
    /// Returns whether this mode guarantees that data survives a power cut. In a mode without this
    /// guarantee, the store does not sync WALs, manifests and roots either.
    fn promises(&self) -> bool {
        true
    }
    /// Takes over the files of one job and makes the files and their directory entries durable, now
    /// or later. If too many files wait, first does the sync work that is due.
    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, io_stats: &IoStats) -> Result<DurabilityHandle>;
    /// Cancels the sync of the file `name`, because its table became obsolete before the version
    /// edit that adds the table was committed to the manifest. If the sync has not begun, it is
    /// never made, and the durability handle of the job covers only the job's other files. The call
    /// does no I/O; the drop of the result closes the file, which is I/O.
    fn cancel_sync(&self, _name: &str) -> Option<Finished> {
        None
    }
    /// Returns whether durability handles become durable by commits that the file system makes
    /// anyway. In such a mode a commit is forced only when a limit is reached, such as that of
    /// unsynced bytes.
    fn waits_for_fs_commit(&self) -> bool {
        false
    }
    /// Does the sync work that the durability mode has due now. Returns false if no handle is
    /// pending.
    fn advance(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<bool>;
    /// Makes every pending handle durable or failed.
    fn commit(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()>;
}
