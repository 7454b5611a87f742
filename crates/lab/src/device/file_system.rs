//! The kinds of file systems that the lab can create for a store: ext4, ext4 without a journal,
//! XFS.
use super::drive_options::NO_JOURNAL;
use serde::Deserialize;
use std::process::Command;

/// Kind of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// ext4 with a journal.
    #[default]
    Ext4,
    /// ext4 without a journal, to measure the cost of the journal. After a power cut it may be
    /// impossible to mount.
    #[serde(rename = "ext4-nojournal")]
    Ext4NoJournal,
    /// XFS, for comparison.
    Xfs,
}

impl FileSystem {
    /// Returns the suffix of the `mkfs` command.
    pub(super) fn maker(self) -> &'static str {
        if self == FileSystem::Xfs { "xfs" } else { "ext4" }
    }

    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Ext4NoJournal => "ext4 without a journal",
            FileSystem::Xfs => "xfs",
        }
    }

    /// Returns the suffix of a device name that selects this file system.
    pub fn suffix(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "",
            FileSystem::Ext4NoJournal => NO_JOURNAL,
            FileSystem::Xfs => ":xfs",
        }
    }

    pub(super) fn mount_options(self) -> &'static str {
        if self == FileSystem::Ext4 { "data=ordered" } else { "" }
    }

    /// Returns the minimum size of the device in bytes: the lab's own minimum for ext4, the minimum
    /// of `mkfs.xfs` for XFS.
    pub fn bytes_min(self) -> u64 {
        if self == FileSystem::Xfs { 300 << 20 } else { 16 << 20 }
    }

    pub(super) fn make(self) -> Command {
        let mut make = Command::new(format!("mkfs.{}", self.maker()));
        match self {
            FileSystem::Xfs => make.args(["-q", "-f", "-K"]),
            _ => make.args(["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]),
        };
        make.args((self == FileSystem::Ext4NoJournal).then_some(["-O", "^has_journal"]).into_iter().flatten());
        make
    }
}
