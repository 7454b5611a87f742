//! The limits that compaction policies work with.
use super::level_targets::LevelTargets;
use terrace_format::LEVELS;

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

    /// Returns the bytes to which a compaction may extend its own inputs if that adds none from the
    /// lower level.
    pub fn expanded_bytes(&self) -> u64 {
        self.target_file_size.saturating_mul(25)
    }

    /// Returns the bytes of grandparents at which an output table is ended. A table that overlaps
    /// more is rewritten, not moved.
    pub fn grandparent_bytes(&self) -> u64 {
        self.target_file_size.saturating_mul(10)
    }
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
