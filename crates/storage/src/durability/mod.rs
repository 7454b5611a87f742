//! Since when do finished files survive a power cut? One trait, one file per tier (docs/durability.md, "Tiers").
use crate::{
    Result, Ticket, Traffic,
    backends::files::fs::{FileSystem, WriteFile},
};

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
