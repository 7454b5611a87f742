//! The durability modes. This module has the only list of all modes.
use super::{BatchTracker, DurabilityTracker, Evidence, JournalTracker, NoTracker, SyncTracker, Way};
use crate::{Error, Result};
use std::{path::Path, sync::Arc, time::Duration};
use terrace_vfs::{FileSystem, RealFs, journal_of};

/// How written files become durable (docs/durability.md, "Durability modes").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurabilityMode {
    /// Syncs the outputs of each job as they are finished.
    #[default]
    Sync,
    /// Makes many outputs durable by one forced commit of the file system's journal. Possible on
    /// ext4 with a reliable journal.
    Group,
    /// Makes many outputs durable at a time, with a sync of each file. Possible on any file system.
    Background,
    /// Makes many outputs durable by the commits that the journal makes anyway. Possible where
    /// `Group` is possible.
    Journal,
    /// Like `Journal`, but each file waits for its own journal transaction, which a BPF program
    /// reports.
    JournalBpf,
    /// `Group` if it is possible, else `Background`.
    Auto,
    /// `Auto` in a new store, and in a store that was created with this mode. `Sync` in any other
    /// existing store.
    Inherit,
    /// Files are never synced: nothing is guaranteed to survive a power cut.
    None,
}

impl DurabilityMode {
    /// Every mode, in the order of help texts.
    pub const ALL: [DurabilityMode; 8] = [
        DurabilityMode::Sync,
        DurabilityMode::Group,
        DurabilityMode::Background,
        DurabilityMode::Journal,
        DurabilityMode::JournalBpf,
        DurabilityMode::Auto,
        DurabilityMode::Inherit,
        DurabilityMode::None,
    ];

    /// Returns the mode's name in options. Reports show the mode that `auto` and `inherit` have
    /// chosen.
    pub fn name(self) -> &'static str {
        match self {
            DurabilityMode::Sync => "sync",
            DurabilityMode::Group => "group",
            DurabilityMode::Background => "background",
            DurabilityMode::Journal => "journal",
            DurabilityMode::JournalBpf => "journal-bpf",
            DurabilityMode::Auto => "auto",
            DurabilityMode::Inherit => "inherit",
            DurabilityMode::None => "none",
        }
    }

    /// Returns the mode with this name.
    pub fn from_name(name: &str) -> Option<DurabilityMode> {
        DurabilityMode::ALL.into_iter().find(|durability_mode| durability_mode.name() == name)
    }

    /// Returns the reason why a store in directory `path`, which need not exist yet, cannot have
    /// this mode; `None` if it can. For `auto`, returns the reason why it cannot choose `group`.
    pub fn refusal(self, path: &Path) -> Option<String> {
        let fs = RealFs::new(path);
        match self {
            DurabilityMode::Auto => DurabilityMode::Group.interval(&fs).err(),
            _ => self.interval(&fs).err(),
        }
    }

    /// Returns the commit interval of the journal on which this mode depends; zero if it depends on
    /// none. The error is the reason why files in `fs` cannot have this mode.
    fn interval(self, fs: &dyn FileSystem) -> std::result::Result<Duration, String> {
        match self {
            DurabilityMode::Group => journal_of(fs)?.commit_interval(),
            DurabilityMode::Journal | DurabilityMode::JournalBpf => match journal_of(fs)?.commit_interval()? {
                Duration::MAX => Err("it has no journal that commits by itself".into()),
                interval if self == DurabilityMode::Journal => Ok(interval),
                interval => journal_of(fs)?.can_tell_transactions().map(|()| interval),
            },
            DurabilityMode::Sync
            | DurabilityMode::Background
            | DurabilityMode::Auto
            | DurabilityMode::Inherit
            | DurabilityMode::None => Ok(Duration::ZERO),
        }
    }

    /// Returns the durability tracker of this mode for files in `fs`. At least `pause` passes
    /// between two batch syncs. At most `files_max` files with an open descriptor wait for a batch
    /// sync. The caller should resolve [`DurabilityMode::Inherit`] first; this function treats
    /// `Inherit` as `Sync`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the reason why the file system cannot keep the promise of the
    /// mode.
    pub(crate) fn tracker_for(
        self,
        fs: &dyn FileSystem,
        pause: Duration,
        files_max: usize,
    ) -> Result<Arc<dyn DurabilityTracker>> {
        let refused =
            |why| Error::Unsupported(format!("durability mode {} is refused for {}: {why}", self.name(), fs.name()));
        let interval = self.interval(fs).map_err(refused)?;
        let batched = |way| Arc::new(BatchTracker::new(way, pause).with_files_max(files_max));
        let journal = |evidence| Arc::new(JournalTracker::new(evidence, pause, interval).with_files_max(files_max));
        Ok(match self {
            DurabilityMode::Sync | DurabilityMode::Inherit => Arc::new(SyncTracker),
            DurabilityMode::None => Arc::new(NoTracker),
            DurabilityMode::Background => batched(Way::Background),
            DurabilityMode::Auto if DurabilityMode::Group.interval(fs).is_err() => batched(Way::Background),
            DurabilityMode::Auto | DurabilityMode::Group => batched(Way::Group),
            DurabilityMode::Journal => journal(Evidence::Count),
            DurabilityMode::JournalBpf => journal(Evidence::Transactions),
        })
    }
}
