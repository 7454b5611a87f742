//! The situation of a store: the input of a compaction policy.
use super::{limits::Limits, reservation::RunningCompactions};
use crate::version::{Version, set::Pointers};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{FamilyId, KeyOrder, SeqNo, TableId};

/// All data from which a compaction policy picks a compaction of one column family.
pub struct Situation<'a> {
    /// The order of user keys.
    pub order: &'a KeyOrder,
    /// The column family.
    pub family: FamilyId,
    /// The live version of the column family.
    pub version: &'a Arc<Version>,
    /// The reservations of running compactions, and other reservations.
    pub busy: &'a RunningCompactions,
    /// The internal keys at which the last compactions of levels ended.
    pub pointers: &'a Pointers,
    /// The size limits of the tree.
    pub limits: &'a Limits,
    /// The table numbers that are reserved for outputs of intra-L0 compactions. Each is one higher
    /// than the number of a table in level 0.
    pub reserved_numbers: &'a BTreeSet<TableId>,
    /// The table whose seek budget is exhausted, with its level; `None` if there is no such table.
    pub seek_hint: Option<(usize, TableId)>,
    /// The lowest sequence number at which a reader may read.
    pub oldest_reader: SeqNo,
    /// The bytes of free disk space that a new compaction may use; `u64::MAX` if unknown.
    pub room: u64,
    /// The estimated share of the bytes above the deepest level that shadow older entries; see
    /// [`ShadowStats::share`](super::shadow_estimate::ShadowStats::share).
    pub shadow_ratio: f64,
}

impl<'a> Situation<'a> {
    /// Returns the internal key at which the last compaction of `level` ended; empty if there was
    /// none.
    pub fn pointer(&self, level: usize) -> &'a [u8] {
        self.pointers.get(&self.family.level(level)).map_or(&[], Vec::as_slice)
    }

    /// Returns a copy of the version, which a plan can own.
    pub fn copied(&self) -> Arc<Version> {
        Arc::new(Version::clone(self.version))
    }
}
