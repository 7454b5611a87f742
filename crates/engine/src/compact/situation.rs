//! What a compaction policy looks at.
use super::{limits::Limits, reservation::RunningCompactions};
use crate::version::Version;
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{KeyOrder, LEVELS, SeqNo, TableId};

/// The input of a policy.
pub struct Situation<'a> {
    /// Order of user keys.
    pub order: &'a KeyOrder,
    /// The live version.
    pub version: &'a Arc<Version>,
    /// Running and reserved compactions.
    pub busy: &'a RunningCompactions,
    /// End of each level's last compaction (internal keys).
    pub pointers: &'a [Vec<u8>; LEVELS],
    /// Limits.
    pub limits: &'a Limits,
    /// Reserved table numbers, each directly above that of a table in level 0.
    pub reserved_numbers: &'a BTreeSet<TableId>,
    /// A table whose seek budget is exhausted, with its level.
    pub seek_hint: Option<(usize, TableId)>,
    /// The lowest sequence number at which a reader may read.
    pub oldest_reader: SeqNo,
    /// The share of bytes above the deepest level that shadow older entries; see
    /// [`ShadowStats::share`](super::shadow_estimate::ShadowStats::share).
    pub shadow_ratio: f64,
}

impl Situation<'_> {
    /// Returns a copy of the version, for a plan.
    pub fn copied(&self) -> Arc<Version> {
        Arc::new(Version::clone(self.version))
    }
}
