//! How much levels 1 and deeper may hold.
use terrace_format::LEVELS;

/// A level holds so many times what the one above it does.
const GROWTH: u64 = 10;
/// Level 1 may grow to so many times its base before a level more is begun. A merge of level 0 then writes as much as that level would
/// cost, and reads search one level less.
const FIRST_MAX: u64 = 4;

/// Bytes that levels 1 and deeper may hold; with more they are due. No level may hold less than the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelSizes([u64; LEVELS]);

impl LevelSizes {
    /// Level 1 holds `base`, each deeper level ten times its upper neighbour. Source: LevelDB's `MaxBytesForLevel`.
    pub fn from_first(base: u64) -> LevelSizes {
        LevelSizes(std::array::from_fn(|level| {
            base.saturating_mul(GROWTH.saturating_pow(level.saturating_sub(1) as u32))
        }))
    }

    /// The last level holds all that is there, each upper level a tenth of its lower neighbour but no less than `base`: of what is
    /// stored, little is old versions, wherever the growth of the store has got to. There are as few levels as `base` allows, or as many
    /// as have something (`held`, by level). Source of the idea: RocksDB's `level_compaction_dynamic_level_bytes`.
    pub fn from_last(base: u64, held: impl Iterator<Item = u64> + Clone) -> LevelSizes {
        let LevelSizes(mut sizes) = LevelSizes::from_first(base);
        let all = held.clone().fold(0, u64::saturating_add);
        let needed = (1..LEVELS).find(|level| all <= sizes[*level].saturating_mul(FIRST_MAX));
        let deepest = held.enumerate().filter(|(_, bytes)| *bytes > 0).last();
        let last = needed.unwrap_or(LEVELS - 1).max(deepest.map_or(0, |(level, _)| level));
        for (level, size) in sizes.iter_mut().enumerate().skip(1) {
            let above_last = last.saturating_sub(level) as u32;
            *size = if above_last > 0 { base } else { *size }.max(all / GROWTH.pow(above_last));
        }
        LevelSizes(sizes)
    }

    /// Of `level`, 1 or deeper.
    pub fn of(&self, level: usize) -> u64 {
        self.0[level]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_level_more_is_begun_when_level_1_would_be_large() {
        let sizes = |held: &[u64]| LevelSizes::from_last(16, held.iter().copied()).0[1..4].to_vec();
        assert_eq!(LevelSizes::from_first(16).0[1..4], [16, 160, 1600]);
        let cases: [(&[u64], [u64; 3]); 8] = [
            (&[], [16, 160, 1600]),
            (&[16, 48], [64, 160, 1600]),
            (&[16, 49], [16, 160, 1600]),
            (&[0, 16, 484], [50, 500, 1600]),
            (&[0, 60, 580], [64, 640, 1600]),
            (&[0, 60, 581], [16, 64, 1600]),
            (&[0, 60, 540, 5400], [60, 600, 6000]),
            (&[0, 0, 0, 20], [16, 16, 1600]), // it held more once
        ];
        for (held, want) in cases {
            assert_eq!(sizes(held), want, "{held:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_there_fits(base in 1..1_u64 << 40, held in prop::collection::vec(0..1_u64 << 62, LEVELS)) {
            let sizes = LevelSizes::from_last(base, held.iter().copied());
            let all = held.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
            prop_assert!(sizes.of(LEVELS - 1) >= all);
            for level in 1..LEVELS - 1 {
                prop_assert!(sizes.of(level) >= base && sizes.of(level) <= sizes.of(level + 1), "{sizes:?}");
            }
        }
    }
}
