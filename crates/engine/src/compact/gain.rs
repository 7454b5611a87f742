//! Estimates the gain of a compaction that is started to remove garbage, which is the number of
//! bytes that it reclaims. This module does no I/O.
use super::{limits::Limits, situation::Situation};
use crate::version::{Contents, TableRef};

/// The factor by which the required share of garbage is divided in an idle store: there a
/// compaction starts for a quarter of the garbage.
const IDLE_FACTOR: u64 = 4;
/// While the store receives writes, puts count as shadowing only if the entries in the level below
/// are on average larger than the puts by more than this factor. The reason: small puts have few
/// bytes, so their level does not become due by its bytes. Without this rule the large garbage in
/// the level below would stay.
pub const SIZE_RATIO: u64 = 4;
/// The assumed size of an entry in bytes, for a table whose number of entries is unknown.
pub const ENTRY_BYTES: u64 = 1 << 10;

/// The numbers from which the gain of a compaction is estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// The bytes of the upper inputs (the tables that the compaction moves down).
    pub upper_bytes: u64,
    /// Entries of the upper inputs.
    pub upper_entries: u64,
    /// The number of tombstones among the entries of the upper inputs.
    pub tombstones: u64,
    /// The bytes of the lower inputs (the tables that the upper inputs are merged with).
    pub lower_bytes: u64,
    /// The number of entries of the lower inputs; 0 if unknown.
    pub lower_entries: u64,
    /// The bytes of the lower inputs that range tombstones of the upper inputs delete.
    pub covered_bytes: u64,
    /// The share of the upper puts that shadow an older entry, from 0 to 1.
    pub shadow_ratio: f64,
}

impl Gain {
    /// Returns the bytes that the compaction is expected to reclaim.
    pub fn reclaimable(&self, idle: bool) -> u64 {
        let entries = if self.lower_entries > 0 { self.lower_entries } else { self.lower_bytes.div_ceil(ENTRY_BYTES) };
        let average = self.lower_bytes / entries.max(1);
        let puts = self.upper_entries.saturating_sub(self.tombstones);
        let much_smaller = average > SIZE_RATIO.saturating_mul(self.upper_bytes / self.upper_entries.max(1));
        let shadowing = if idle || much_smaller { (puts as f64 * self.shadow_ratio) as u64 } else { 0 };
        let reclaimable = self.tombstones.saturating_add(shadowing).saturating_mul(average);
        reclaimable.saturating_add(self.covered_bytes).min(self.lower_bytes)
    }

    /// Returns whether the reclaimable bytes are at least `percent` of the input bytes. In an idle
    /// store a quarter of this share is sufficient.
    pub fn pays_off(&self, percent: u64, idle: bool) -> bool {
        exceeds(self.reclaimable(idle), self.upper_bytes.saturating_add(self.lower_bytes), percent, idle)
    }
}

/// Returns whether `part` is at least `percent` of `all`. In an idle store a quarter of this share
/// is sufficient.
fn exceeds(part: u64, all: u64, percent: u64, idle: bool) -> bool {
    let times = if idle { 100 * IDLE_FACTOR } else { 100 };
    percent > 0 && part > 0 && u128::from(part) * u128::from(times) >= u128::from(all) * u128::from(percent)
}

/// Returns whether a rewrite of a table drops enough garbage to be worth its cost. The caller
/// ensures that no deeper level has a table with keys in the range of this table.
pub fn is_worth_rewriting(contents: &Contents, percent: u64, idle: bool) -> bool {
    exceeds(contents.garbage(), contents.entries.saturating_add(contents.ranges.len() as u64), percent, idle)
}

/// Returns whether every reader sees all entries of the table. `contents` describes the table.
pub fn visible_to_all(ctx: &Situation<'_>, contents: &Contents) -> bool {
    contents.newest <= ctx.oldest_reader
}

/// Returns whether a table that a compaction is about to move into `output_level` should be
/// rewritten there instead. The result is true if the rewrite can drop enough garbage.
pub fn should_rewrite(ctx: &Situation<'_>, table: &TableRef, output_level: usize) -> bool {
    let Limits { tombstone_compaction_percent: percent, .. } = *ctx.limits;
    let should_rewrite =
        |contents: &Contents| visible_to_all(ctx, contents) && is_worth_rewriting(contents, percent, false);
    let is_bottom = || {
        let first_below = &ctx.version.levels[output_level + 1..];
        first_below.iter().all(|level| level.overlap_slices(ctx.order, &table.span()).all(|tables| tables.is_empty()))
    };
    percent > 0 && table.contents().is_some_and(should_rewrite) && is_bottom()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tombstones_pay_with_the_bytes_they_reclaim() {
        const MIB: u64 = 1 << 20;
        let gain = |tombstones, puts, upper_bytes, lower_entries, covered_bytes, shadow_ratio| Gain {
            upper_bytes,
            upper_entries: tombstones + puts,
            tombstones,
            lower_bytes: 20 * MIB,
            lower_entries,
            covered_bytes,
            shadow_ratio,
        };
        for (gain, reclaimable, pays_off, pays_off_when_idle) in [
            (gain(0, 0, 0, 20, 0, 0.0), 0, false, false),
            (gain(10, 0, 100, 20, 0, 0.0), 10 * MIB, false, true), // 100 upper bytes too many
            (gain(11, 0, 100, 20, 0, 0.0), 11 * MIB, true, true),
            (gain(30, 0, 100, 20, 0, 0.0), 20 * MIB, true, true), // at most the lower inputs
            (gain(10_300, 0, 100, 0, 0, 0.0), 10_300 << 10, true, true), // 1 KiB per unknown entry
            // Puts of the same size as the entries in the level below count as shadowing only in an
            // idle store.
            (gain(0, 10, 10 * MIB, 20, 0, 1.0), 0, false, true),
            (gain(0, 10, 10 * MIB, 20, 0, 0.1), 0, false, false), // most puts have new keys
            (gain(0, 15, 15, 20, 0, 1.0), 15 * MIB, true, true),  // puts that are small enough
            (gain(0, 0, 0, 20, 10 * MIB, 0.0), 10 * MIB, true, true),
            (gain(1, 9, MIB, 20, 2 * MIB, 0.0), 3 * MIB, false, true),
        ] {
            assert_eq!(gain.reclaimable(false), reclaimable, "{gain:?}");
            assert_eq!([gain.pays_off(50, false), gain.pays_off(50, true)], [pays_off, pays_off_when_idle], "{gain:?}");
            assert!(!gain.pays_off(0, true), "off");
        }
    }

    #[test]
    fn bottommost_tables_are_rewritten_without_their_garbage() {
        let of = |entries, tombstones, shadowed| Contents { entries, tombstones, shadowed, ..Contents::default() };
        let ranges = Contents { ranges: vec![(vec![1], vec![2])], ..of(1, 0, 0) };
        for (contents, under_load, when_idle) in [
            (of(0, 0, 0), false, false),
            (of(100, 12, 0), false, false),
            (of(100, 13, 0), false, true),
            (of(100, 50, 0), true, true),
            (of(100, 0, 50), true, true),
            (ranges, true, true),
        ] {
            let outcomes = [false, true].map(|idle| is_worth_rewriting(&contents, 50, idle));
            assert_eq!(outcomes, [under_load, when_idle], "{contents:?}");
        }
    }
}
