//! Target sizes of levels 1 and deeper.
use terrace_format::LEVELS;

/// The ratio of each level's target to the target of the level above.
const LEVEL_MULTIPLIER: u64 = 10;
/// Level 1 may grow to this many times its base before the store gets a new level. With a level 1
/// of this size, a compaction of level 0 writes as much as compactions through one more level
/// would write, but reads probe one level less.
const LEVEL_1_SLACK: u64 = 4;

/// The target sizes of level 1 and all deeper levels, in bytes. A level that has reached its
/// target is due for a compaction. No level has a smaller target than the level above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelTargets([u64; LEVELS]);

impl LevelTargets {
    /// Computes targets from the first level downwards: level 1 has the target `base`, and the
    /// target of each deeper level is ten times that of the level above. Source: LevelDB's
    /// `MaxBytesForLevel`.
    pub fn from_first(base: u64) -> LevelTargets {
        LevelTargets(std::array::from_fn(|level| {
            base.saturating_mul(LEVEL_MULTIPLIER.saturating_pow(level.saturating_sub(1) as u32))
        }))
    }

    /// Computes targets from the last level upwards (dynamic level bytes). The last non-empty
    /// level of `level_bytes` is never due. The computation treats the last level as if it held
    /// all bytes. The target of each level above is a tenth of the target of the level below, but
    /// at least `base`. So old versions are a small share of the store at any size. Source of the
    /// idea: RocksDB's `level_compaction_dynamic_level_bytes`.
    pub fn from_last(base: u64, level_bytes: &[u64; LEVELS]) -> LevelTargets {
        let (total, last) = (sum(level_bytes), last(level_bytes));
        LevelTargets(std::array::from_fn(|level| match last.checked_sub(level) {
            None | Some(0) => u64::MAX,
            Some(above_last) => base.max(total / LEVEL_MULTIPLIER.pow(above_last as u32)),
        }))
    }

    /// Returns the target of `level`, which is 1 or deeper.
    pub fn of(&self, level: usize) -> u64 {
        self.0[level]
    }
}

/// Returns the number of the last non-empty level, at least 1.
pub fn last(level_bytes: &[u64; LEVELS]) -> usize {
    level_bytes.iter().rposition(|bytes| *bytes > 0).unwrap_or(0).max(1)
}

/// Returns the number of the last level that the store should have, so that level 1 stays within
/// four times `base`. At most `base` bytes of level 0 count, because they will soon be in level 1.
/// A larger level 0 consists mostly of overwrites.
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
            ([500, 48, 0, 0], 1, [ALL, ALL, ALL]), // a backlog in level 0 starts no level
            ([0, 16, 484, 0], 2, [50, ALL, ALL]),
            ([0, 60, 580, 0], 2, [64, ALL, ALL]),
            ([0, 60, 581, 0], 3, [64, ALL, ALL]), // until level 3 has a table
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
