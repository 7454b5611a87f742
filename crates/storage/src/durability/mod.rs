//! Since when do finished files survive a power cut? One trait, one file per tier (docs/durability.md, "Tiers").
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

/// A finished file whose bytes no longer change, by the descriptor that wrote it: writeback errors are reported
/// per descriptor, so a reopened one could miss them.
pub struct Finished {
    /// For messages.
    pub name: String,
    /// The writer's descriptor.
    pub file: Box<dyn WriteFile>,
    /// Bytes written.
    pub bytes: u64,
    /// What for.
    pub purpose: Purpose,
}

impl Finished {
    /// Whether nothing is due any more to make it survive.
    fn is_saved(&self) -> bool {
        self.file.is_saved()
    }

    /// Writes its bytes back, unless they are; counts what was a whole sync.
    fn write_back(&self, traffic: &IoStats) -> Result<()> {
        if self.is_saved() {
            return Ok(());
        }
        let start = Instant::now();
        self.file.write_back().map_err(|e| Error::io("write back", &self.name, e))?;
        if self.is_saved() {
            traffic.synced(SyncKind::FileSystem, self.bytes, start.elapsed());
        }
        Ok(())
    }
}

/// The journal of `fs`; an error of the kind `Unsupported` where there is none.
fn journal_of(fs: &dyn FileSystem) -> io::Result<&dyn JournalCommit> {
    terrace_vfs::journal_of(fs).map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why))
}

/// How tickets mature.
pub trait DurabilityTracker: Send + Sync {
    /// The tier's name.
    fn durability_mode(&self) -> &'static str;
    /// Whether anything is promised. If not, logs and roots are not synced either.
    fn promises(&self) -> bool {
        true
    }
    /// Takes charge of files of one build, and of their directory entries. Where too many wait already, first does what is due for them.
    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, traffic: &IoStats) -> Result<DurabilityHandle>;
    /// Nobody needs the file called `name` to be durable any more, as nothing durable will ever name it: if nothing has been done for
    /// that yet, nothing will be, and its build's ticket speaks of the other files alone. Takes no I/O, unlike dropping what
    /// this returns.
    fn give_up(&self, _name: &str) -> Option<Finished> {
        None
    }
    /// Whether tickets mature by commits that the file system makes anyway, so that forcing one is for emergencies.
    fn is_patient(&self) -> bool {
        false
    }
    /// Makes progress at the tier's own pace; false if nothing is outstanding.
    fn advance(&self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<bool>;
    /// Decides every outstanding ticket.
    fn commit(&self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<()>;
}
