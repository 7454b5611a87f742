//! Since when do finished files survive a power cut? One trait, one file per tier (docs/durability.md, "Tiers").
use crate::{
    Error, Result, SyncKind, Ticket, Traffic,
    backends::files::fs::{FileSystem, WriteFile},
};
use std::time::Instant;

mod batch;
mod journal;
mod none;
pub mod probe;
mod sync;

pub use batch::{BatchTracker, Way};
pub use journal::{Evidence, JournalTracker};
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
}

impl Finished {
    /// Whether nothing is due any more to make it survive.
    fn is_saved(&self) -> bool {
        self.file.is_saved()
    }

    /// Writes its bytes back, unless they are; counts what was a whole sync.
    fn write_back(&self, traffic: &Traffic) -> Result<()> {
        if self.is_saved() {
            return Ok(());
        }
        let start = Instant::now();
        self.file.write_back().map_err(|e| Error::io("write back", &self.name, e))?;
        if self.is_saved() {
            traffic.synced(SyncKind::FileSystem, 0, start.elapsed());
        }
        Ok(())
    }
}

/// How tickets mature.
pub trait CommitTracker: Send + Sync {
    /// The tier's name.
    fn tier(&self) -> &'static str;
    /// Whether anything is promised. If not, logs and roots are not synced either.
    fn promises(&self) -> bool {
        true
    }
    /// Takes charge of the files of one build, and of their directory entries.
    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, traffic: &Traffic) -> Result<Ticket>;
    /// Whether tickets mature by commits that the file system makes anyway, so that forcing one is for emergencies.
    fn is_patient(&self) -> bool {
        false
    }
    /// Makes progress at the tier's own pace; false if nothing is outstanding.
    fn advance(&self, fs: &dyn FileSystem, traffic: &Traffic) -> Result<bool>;
    /// Decides every outstanding ticket.
    fn commit(&self, fs: &dyn FileSystem, traffic: &Traffic) -> Result<()>;
}
