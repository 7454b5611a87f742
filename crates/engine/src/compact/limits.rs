//! The size limits that compaction policies use.
use super::level_targets::LevelTargets;
use terrace_format::LEVELS;

/// The limits that a policy uses. Sizes are in bytes unless stated otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The size at which a compaction ends an output SSTable and starts the next one.
    pub target_file_size: u64,
    /// The target size of level 1. With dynamic level bytes it is the minimum of this target size.
    pub max_bytes_for_level_base: u64,
    /// Whether target sizes are computed from the last level upwards (dynamic level bytes). If not,
    /// they are computed from level 1 downwards.
    pub level_compaction_dynamic_level_bytes: bool,
    /// The target number of entries of level 0. The target of each deeper level is ten times that
    /// of the level above. 0 means that levels have target sizes in bytes.
    pub max_entries_for_level_base: u64,
    /// The number of sorted runs in level 0 at which a compaction of level 0 is due.
    pub level0_file_num_compaction_trigger: u64,
    /// The number of sorted runs in level 0 at which a compaction of level 0 starts even if level 0
    /// is smaller than `level0_min_overlap_percent` requires.
    pub l0_pressing_runs: u64,
    /// The minimum size of level 0, in percent of the bytes of level 1 that overlap it, at which a
    /// compaction of level 0 is worth the rewrite of level 1. 0 means that every size is
    /// sufficient.
    pub level0_min_overlap_percent: u64,
    /// The smallest number of sorted runs that an intra-L0 compaction merges; 0 turns these
    /// compactions off.
    pub intra_l0_compaction_trigger: u64,
    /// Whether a compaction picks the table of a level that has the least overlap with the next
    /// level. If not, it picks the tables of the level in turn (round-robin).
    pub min_overlapping_ratio: bool,
    /// The share of a compaction's input bytes, in percent, that tombstones must make reclaimable
    /// before the compaction starts because of them. 0 means that no compaction starts for this
    /// reason.
    pub tombstone_compaction_percent: u64,
}

impl Limits {
    /// Returns whether target sizes in bytes are used and are computed from the last level upwards.
    pub fn is_dynamic(&self) -> bool {
        self.level_compaction_dynamic_level_bytes && self.max_entries_for_level_base == 0
    }

    /// Returns the target sizes of the levels. `held` are the bytes that each level has now.
    pub fn level_targets(&self, held: &[u64; LEVELS]) -> LevelTargets {
        if self.is_dynamic() {
            LevelTargets::from_last(self.max_bytes_for_level_base, held)
        } else {
            LevelTargets::from_first(self.max_bytes_for_level_base)
        }
    }

    /// Returns the pending compaction bytes: the sum of the bytes by which level 1 and deeper
    /// levels exceed their target sizes. A level that will move down without a rewrite is not
    /// included. With dynamic level bytes, the larger of two targets is used: the dynamic target,
    /// and the target that is computed from level 1 downwards.
    pub fn debt(&self, held: &[u64; LEVELS]) -> u64 {
        let (sizes, from_first) = (self.level_targets(held), LevelTargets::from_first(self.max_bytes_for_level_base));
        let moves_down = |level: usize| self.is_dynamic() && held.get(level + 1).is_none_or(|below| *below == 0);
        let over = |level: usize| held[level].saturating_sub(sizes.of(level).max(from_first.of(level)));
        (1..LEVELS).filter(|level| !moves_down(*level)).map(over).fold(0, u64::saturating_add)
    }

    /// Returns the size limit for the inputs of a compaction, in bytes. Up to this limit the picker
    /// may add tables of the upper level, as long as they require no additional table of the lower
    /// level.
    pub fn expanded_bytes(&self) -> u64 {
        self.target_file_size.saturating_mul(25)
    }

    /// Returns how many bytes of grandparents (tables of the level below the output level) one
    /// output table may overlap. The compaction job ends an output table at this limit. A table
    /// that overlaps more bytes is rewritten instead of moved.
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
            ([500, 40, 301, 2999, 0, 0, 0], 2), // level 1 has 40 of 3840 / 100 = 38 bytes
            // Level 2 has 90 bytes: more than its dynamic target (a tenth of the total), but less
            // than the target of 100 bytes that LevelDB would compute from level 1.
            ([0, 9, 90, 500, 0, 0, 0], 0),
            ([0, 0, 4000, 0, 0, 0, 0], 0),
            ([0, 40, 400, 0, 3600, 0, 0], 30), // level 2 will move down without a rewrite
        ] {
            assert_eq!(limits.debt(&held), want, "{held:?}");
        }
    }
}
