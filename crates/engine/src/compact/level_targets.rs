//! The target sizes of level 1 and of deeper levels.
use terrace_format::LEVELS;

/// The ratio of a level's target size to the target size of the level above it.
const LEVEL_MULTIPLIER: u64 = 10;
/// Level 1 may grow to this many times its base size before the store gets one more level. At that
/// size, a compaction of level 0 into level 1 writes about as many bytes as the compactions
/// through one more level would write. With fewer levels, a read probes fewer tables.
const LEVEL_1_SLACK: u64 = 4;

/// The target sizes of all levels from level 1 on, in bytes. A level that has reached its target
/// size is due for a compaction. No level has a smaller target size than the level above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelTargets([u64; LEVELS]);

impl LevelTargets {
    /// Computes target sizes from the first level downwards. Level 1 has the target `base`, and the
    /// target of each deeper level is ten times that of the level above. Source: LevelDB's
    /// `MaxBytesForLevel`.
    pub fn from_first(base: u64) -> LevelTargets {
        LevelTargets(std::array::from_fn(|level| {
            base.saturating_mul(LEVEL_MULTIPLIER.saturating_pow(level.saturating_sub(1) as u32))
        }))
    }

    /// Computes target sizes from the last level upwards (dynamic level bytes). `level_bytes` are
    /// the bytes of each level. The last non-empty level is never due. The target of each level
    /// above it is a tenth of the target of the level below, but at least `base`; for this purpose
    /// the last level is treated as if it contained all bytes of the store. Obsolete entries are
    /// therefore a small share of a store of any size. Source of the idea: RocksDB's
    /// `level_compaction_dynamic_level_bytes`.
    pub fn from_last(base: u64, level_bytes: &[u64; LEVELS]) -> LevelTargets {
        let (total, last) = (sum(level_bytes), last(level_bytes));
        LevelTargets(std::array::from_fn(|level| match last.checked_sub(level) {
            None | Some(0) => u64::MAX,
            Some(above_last) => base.max(total / LEVEL_MULTIPLIER.pow(above_last as u32)),
        }))
    }

    /// Returns the target size of `level` in bytes. `level` must be 1 or deeper.
    pub fn of(&self, level: usize) -> u64 {
        self.0[level]
    }
}

/// Returns the number of the last non-empty level; 1 if only level 0 has tables, or none.
pub fn last(level_bytes: &[u64; LEVELS]) -> usize {
    level_bytes.iter().rposition(|bytes| *bytes > 0).unwrap_or(0).max(1)
}

/// Returns the number of the last level that the store should have, so that level 1 stays within
/// four times `base`. Of level 0, at most `base` bytes count, because a larger level 0 consists
/// mostly of overwrites.
pub fn last_needed(base: u64, level_bytes: &[u64; LEVELS]) -> usize {
    let (total, sizes) =
        (sum(&level_bytes[1..]).saturating_add(level_bytes[0].min(base)), LevelTargets::from_first(base));
    (1..LEVELS).find(|level| total <= sizes.of(*level).saturating_mul(LEVEL_1_SLACK)).unwrap_or(LEVELS - 1)
}

fn sum(level_bytes: &[u64]) -> u64 {
    level_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn levels_are_few_and_the_last_holds_everything() {
        const ALL: u64 = u64::MAX;
        assert_eq!([1, 2, 3].map(|level| LevelTargets::from_first(16).of(level)), [16, 160, 1600]);
        let cases = [
            ([0, 0, 0, 0], 1, [ALL, ALL, ALL]),
            ([16, 48, 0, 0], 1, [ALL, ALL, ALL]),
            ([16, 49, 0, 0], 2, [ALL, ALL, ALL]),
            ([500, 48, 0, 0], 1, [ALL, ALL, ALL]), // a large level 0 adds no level
            ([0, 16, 484, 0], 2, [50, ALL, ALL]),
            ([0, 60, 580, 0], 2, [64, ALL, ALL]),
            ([0, 60, 581, 0], 3, [64, ALL, ALL]), // unchanged until level 3 has a table
            ([0, 60, 0, 581], 3, [16, 64, ALL]),
            ([0, 0, 0, 20], 1, [16, 16, ALL]), // the store was larger before
        ];
        for (first, needed, want) in cases {
            let level_bytes: [u64; LEVELS] = std::array::from_fn(|level| first.get(level).copied().unwrap_or(0));
            let sizes = LevelTargets::from_last(16, &level_bytes);
            assert_eq!(
                (last_needed(16, &level_bytes), [1, 2, 3].map(|level| sizes.of(level))),
                (needed, want),
                "{level_bytes:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_target_is_below_that_of_the_level_above(base in 1..1_u64 << 40, level_bytes in prop::array::uniform7(0..1_u64 << 62)) {
            let sizes = LevelTargets::from_last(base, &level_bytes);
            prop_assert!(sizes.of(1) >= base && (1..LEVELS - 1).all(|level| sizes.of(level) <= sizes.of(level + 1)), "{sizes:?}");
            prop_assert!((1..LEVELS).contains(&last_needed(base, &level_bytes)));
        }
    }
}
