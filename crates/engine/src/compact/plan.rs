//! The compaction picker's interface: a policy looks at a version and returns a plan. Pure: no
//! I/O, no clock, no locks.
use super::{level_targets::LevelTargets, reservation::RunningCompactions};
pub use crate::version::LevelTotals;
use crate::version::{KeyRange, TableRef, Version};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{KeyOrder, LEVELS, SeqNo, TableId};

/// The limits that a policy works with, in bytes unless stated otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Size at which a compaction ends an output SSTable.
    pub target_file_size: u64,
    /// Target of level 1; with dynamic level bytes its minimum.
    pub max_bytes_for_level_base: u64,
    /// Whether levels are sized from the last one (dynamic level bytes).
    pub level_compaction_dynamic_level_bytes: bool,
    /// Target entries of level 0, each deeper level ten times its upper neighbour; 0 if levels are
    /// sized by bytes.
    pub max_entries_for_level_base: u64,
    /// Runs in level 0 at which its compaction is due.
    pub level0_file_num_compaction_trigger: u64,
    /// Runs in level 0 at which its compaction waits no longer for `level0_min_overlap_percent`.
    pub l0_pressing_runs: u64,
    /// Bytes of level 0, in percent of the overlapping bytes of level 1, from which on its
    /// compaction is worth the rewrite; 0: always.
    pub level0_min_overlap_percent: u64,
    /// Fewest runs of an intra-L0 compaction; 0 turns it off.
    pub intra_l0_compaction_trigger: u64,
    /// Whether a level gives the table with the least overlap in the next level, not the next one
    /// round-robin.
    pub min_overlapping_ratio: bool,
    /// Share of a compaction's input bytes, in percent, that tombstones must make reclaimable to
    /// pay for it; 0: never.
    pub tombstone_compaction_percent: u64,
}

impl Limits {
    /// Whether levels are sized by bytes from the last one.
    pub fn is_dynamic(&self) -> bool {
        self.level_compaction_dynamic_level_bytes && self.max_entries_for_level_base == 0
    }

    /// Returns the targets of levels that hold `held` bytes now.
    pub fn level_targets(&self, held: &[u64; LEVELS]) -> LevelTargets {
        if self.is_dynamic() {
            LevelTargets::from_last(self.max_bytes_for_level_base, held)
        } else {
            LevelTargets::from_first(self.max_bytes_for_level_base)
        }
    }

    /// Returns the pending compaction bytes: bytes above the targets of levels 1 and deeper. Bytes
    /// that move down without a rewrite do not count, nor does what another way of sizing levels
    /// left there.
    pub fn debt(&self, held: &[u64; LEVELS]) -> u64 {
        let (sizes, from_first) = (self.level_targets(held), LevelTargets::from_first(self.max_bytes_for_level_base));
        let moves_down = |level: usize| self.is_dynamic() && held.get(level + 1).is_none_or(|below| *below == 0);
        let over = |level: usize| held[level].saturating_sub(sizes.of(level).max(from_first.of(level)));
        (1..LEVELS).filter(|level| !moves_down(*level)).map(over).fold(0, u64::saturating_add)
    }
}

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

/// A compaction: merges the inputs and places the outputs in `output_level`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Level of the upper inputs.
    pub level: usize,
    /// Level of the outputs.
    pub output_level: usize,
    /// Inputs from `level`.
    pub upper: Vec<Arc<TableRef>>,
    /// Inputs from `output_level`.
    pub lower: Vec<Arc<TableRef>>,
    /// Tables of the level below the output level that overlap the inputs. A later compaction of
    /// the outputs will read them.
    pub grandparents: Vec<Arc<TableRef>>,
    /// Where this level's next compaction starts (an internal key). Unused by an intra-L0
    /// compaction.
    pub pointer: Vec<u8>,
    /// The version of the plan, which says which keys have older entries in deeper levels. It is a
    /// copy that pins no files: the inputs stay live until the plan's own edit, and of other tables
    /// only the key ranges are read.
    pub version: Arc<Version>,
    /// Whether the inputs, all of one level, move down without a rewrite.
    pub trivial_move: bool,
    /// For an intra-L0 compaction: the table number of its one output, which gives it the position
    /// of its inputs.
    pub number: Option<TableId>,
    /// Whether only value-log GC needs this compaction: a rewrite in place that relocates values,
    /// or a compaction that exposes shadowed garbage. Nothing else depends on it.
    pub gc_only: bool,
}

impl Plan {
    /// Makes a rewrite in place of neighbouring tables of one level. The caller ensures that the
    /// level has no older version of the last key after the last table.
    pub fn in_place(ctx: &Situation<'_>, level: usize, tables: Vec<Arc<TableRef>>) -> Plan {
        Plan {
            level,
            output_level: level,
            pointer: tables.last().expect("a plan has inputs").meta.largest.clone(),
            upper: tables,
            lower: Vec::new(),
            grandparents: Vec::new(),
            version: ctx.copied(),
            trivial_move: false,
            number: None,
            gc_only: false,
        }
    }

    /// Returns every input with its level.
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        let upper = self.upper.iter().map(|table| (self.level, table));
        upper.chain(self.lower.iter().map(|table| (self.output_level, table)))
    }

    /// Returns the bytes of all inputs.
    pub fn bytes(&self) -> u64 {
        self.inputs().map(|(_, table)| table.meta.bytes).fold(0, u64::saturating_add)
    }
}

/// Picks compactions.
pub trait Policy: Send + Sync {
    /// Returns the most urgent compaction that conflicts with no running one; `None` if no level is
    /// due.
    fn plan(&self, ctx: &Situation<'_>) -> Option<Plan>;
    /// Returns a compaction of the tables of `level` with keys of `range`, from its start on;
    /// `None` if there are none. The caller checks for conflicts with running compactions.
    fn plan_range(&self, ctx: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Option<Plan>;
}

/// Returns the first and the last user key of some tables.
pub fn span<'a>(order: &KeyOrder, tables: impl Iterator<Item = &'a Arc<TableRef>>) -> Option<(&'a [u8], &'a [u8])> {
    tables.map(|table| (table.smallest(), table.largest())).reduce(|(low, high), (smallest, largest)| {
        let low = if order.user(smallest, low).is_lt() { smallest } else { low };
        (low, if order.user(largest, high).is_gt() { largest } else { high })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_bytes_are_those_above_the_targets() {
        let mut limits = Limits { max_bytes_for_level_base: 10, ..Limits::default() };
        assert_eq!(limits.debt(&[500, 10, 99, 1000, 0, 0, 0]), 0);
        assert_eq!(limits.debt(&[500, 12, 101, 1001, 0, 0, 0]), 4);
        limits.level_compaction_dynamic_level_bytes = true;
        for (held, want) in [
            ([500, 40, 301, 2999, 0, 0, 0], 2), // a hundredth of the 3840 in total is 38
            // More than a tenth of the total, but below LevelDB's 100.
            ([0, 9, 90, 500, 0, 0, 0], 0),
            ([0, 0, 4000, 0, 0, 0, 0], 0),
            ([0, 40, 400, 0, 3600, 0, 0], 30), // level 2 will move down without a rewrite
        ] {
            assert_eq!(limits.debt(&held), want, "{held:?}");
        }
    }
}
