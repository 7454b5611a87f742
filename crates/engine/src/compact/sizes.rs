//! How much levels 1 and deeper may hold.
use terrace_format::LEVELS;

/// A level holds so many times what the one above it does.
const GROWTH: u64 = 10;
/// Level 1 may grow to so many times its base before a level more is begun. A merge of level 0 then writes as much as that level would
/// cost, and reads search one level less.
const FIRST_MAX: u64 = 4;

/// Bytes that levels 1 and deeper may hold; from there on they are due. No level may hold less than the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelSizes([u64; LEVELS]);

impl LevelSizes {
    /// Level 1 holds `base`, each deeper level ten times its upper neighbour. Source: LevelDB's `MaxBytesForLevel`.
    pub fn from_first(base: u64) -> LevelSizes {
        LevelSizes(std::array::from_fn(|level| {
            base.saturating_mul(GROWTH.saturating_pow(level.saturating_sub(1) as u32))
        }))
    }

    /// The last level that has anything of `held` is never due; each upper level holds a tenth of its lower neighbour, where the last counts
    /// as holding all, but no less than `base`: of what is stored, little is old versions, wherever the growth of the store has got to. Source of the idea: RocksDB's
    /// `level_compaction_dynamic_level_bytes`.
    pub fn from_last(base: u64, held: &[u64; LEVELS]) -> LevelSizes {
        let (all, last) = (sum(held), last(held));
        LevelSizes(std::array::from_fn(|level| match last.checked_sub(level) {
            None | Some(0) => u64::MAX,
            Some(above_last) => base.max(all / GROWTH.pow(above_last as u32)),
        }))
    }

    /// Of `level`, 1 or deeper.
    pub fn of(&self, level: usize) -> u64 {
        self.0[level]
    }
}

/// The last level that has anything; 1 if none below level 0 has.
pub fn last(held: &[u64; LEVELS]) -> usize {
    held.iter().rposition(|bytes| *bytes > 0).unwrap_or(0).max(1)
}

/// The last level that there should be, so that level 1 stays within four times `base`. What level 0 brings at once will soon lie
/// below; more than that is mostly what is written over again.
pub fn last_needed(base: u64, held: &[u64; LEVELS]) -> usize {
    let (all, sizes) = (sum(&held[1..]).saturating_add(held[0].min(base)), LevelSizes::from_first(base));
    (1..LEVELS).find(|level| all <= sizes.of(*level).saturating_mul(FIRST_MAX)).unwrap_or(LEVELS - 1)
}

fn sum(held: &[u64]) -> u64 {
    held.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn levels_are_few_and_the_last_holds_all() {
        const ALL: u64 = u64::MAX;
        assert_eq!([1, 2, 3].map(|level| LevelSizes::from_first(16).of(level)), [16, 160, 1600]);
        let cases = [
            ([0, 0, 0, 0], 1, [ALL, ALL, ALL]),
            ([16, 48, 0, 0], 1, [ALL, ALL, ALL]),
            ([16, 49, 0, 0], 2, [ALL, ALL, ALL]),
            ([500, 48, 0, 0], 1, [ALL, ALL, ALL]), // a backlog begins no level
            ([0, 16, 484, 0], 2, [50, ALL, ALL]),
            ([0, 60, 580, 0], 2, [64, ALL, ALL]),
            ([0, 60, 581, 0], 3, [64, ALL, ALL]), // until there is something in level 3
            ([0, 60, 0, 581], 3, [16, 64, ALL]),
            ([0, 0, 0, 20], 1, [16, 16, ALL]), // it held more once
        ];
        for (first, needed, want) in cases {
            let held: [u64; LEVELS] = std::array::from_fn(|level| first.get(level).copied().unwrap_or(0));
            let sizes = LevelSizes::from_last(16, &held);
            assert_eq!((last_needed(16, &held), [1, 2, 3].map(|level| sizes.of(level))), (needed, want), "{held:?}");
        }
    }

    proptest! {
        #[test]
        fn no_level_may_hold_less_than_the_one_above(base in 1..1_u64 << 40, held in prop::array::uniform7(0..1_u64 << 62)) {
            let sizes = LevelSizes::from_last(base, &held);
            prop_assert!(sizes.of(1) >= base && (1..LEVELS - 1).all(|level| sizes.of(level) <= sizes.of(level + 1)), "{sizes:?}");
            prop_assert!((1..LEVELS).contains(&last_needed(base, &held)));
        }
    }
}
