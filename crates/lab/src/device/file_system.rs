//! The kinds of file systems under a store.
use super::drive_options::NO_JOURNAL;
use serde::Deserialize;
use std::process::Command;

/// Kind of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// The default.
    #[default]
    Ext4,
    /// ext4 without a journal, to measure the cost of the journal. After a power cut it may not be
    /// mountable.
    #[serde(rename = "ext4-nojournal")]
    Ext4NoJournal,
    /// For comparison.
    Xfs,
}

impl FileSystem {
    /// Suffix of the `mkfs` command.
    pub(super) fn maker(self) -> &'static str {
        if self == FileSystem::Xfs { "xfs" } else { "ext4" }
    }

    /// Name for reports.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Ext4NoJournal => "ext4 without a journal",
            FileSystem::Xfs => "xfs",
        }
    }

    /// Suffix of a device name.
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

    /// Minimum device size in bytes: for ext4, or for an XFS with the defaults of its tool.
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
