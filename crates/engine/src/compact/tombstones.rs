//! Tables that go down for what they hide. Levels are due by their bytes, but a tombstone has few and may hide many: without this it
//! waits above what it deletes for as long as its level does not fill, and that is for ever where writes go on elsewhere, or end.
//!
//! A table pays for its merge with the bytes that it is expected to hide in the first level below that has its keys: as many entries as it
//! has tombstones, of average size, and what its range tombstones cover. It goes once that is `tombstone_compaction_percent` of what the merge
//! rewrites, or a quarter of that while the store rests. So a tombstone is merged for its own sake at most once a level, at a price that
//! what it frees bounds, and of the space of a level and of what hides some of it, no more than that share is garbage.
//! Where there is nothing below, a table of which as much is tombstones, or was held by a snapshot, is written without them. Pure.
use super::{
    leveled::{bytes, grown_from, with_boundaries},
    plan::{Limits, Plan, Situation},
};
use crate::version::{Contents, KeyRange, TableRef};
use std::sync::Arc;
use terrace_format::{KeyOrder, LEVELS};

/// While the store rests, so much less is enough.
const RESTING: u64 = 4;
/// Puts count as hiding something under load, too, where entries below are so much larger on average: levels that are due by bytes never
/// see that.
const LARGER: u64 = 4;
/// Bytes of an entry where nobody knows.
const ENTRY_BYTES: u64 = 1 << 10;

/// What is known of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// Bytes of the tables that go down.
    pub upper_bytes: u64,
    /// Their entries, …
    pub upper_entries: u64,
    /// … of these tombstones.
    pub tombstones: u64,
    /// Bytes of the tables that they meet, …
    pub lower_bytes: u64,
    /// … their entries, 0 if nobody knows, …
    pub lower_entries: u64,
    /// … and bytes of those that range tombstones cover.
    pub covered: u64,
    /// Of each put, so much is known to hide something.
    pub share: f64,
}

impl Gain {
    /// Bytes that are expected to go.
    pub fn hidden(&self, resting: bool) -> u64 {
        let entries = if self.lower_entries > 0 { self.lower_entries } else { self.lower_bytes.div_ceil(ENTRY_BYTES) };
        let average = self.lower_bytes / entries.max(1);
        let puts = self.upper_entries.saturating_sub(self.tombstones);
        let shrinks = average > LARGER.saturating_mul(self.upper_bytes / self.upper_entries.max(1));
        let hiding = if resting || shrinks { (puts as f64 * self.share) as u64 } else { 0 };
        let hidden = self.tombstones.saturating_add(hiding).saturating_mul(average);
        hidden.saturating_add(self.covered).min(self.lower_bytes)
    }

    /// Whether that pays for the merge.
    pub fn pays(&self, percent: u64, resting: bool) -> bool {
        exceeds(self.hidden(resting), self.upper_bytes.saturating_add(self.lower_bytes), percent, resting)
    }
}

/// Whether `part` is as much of `all` as is worth writing the rest.
fn exceeds(part: u64, all: u64, percent: u64, resting: bool) -> bool {
    let times = if resting { 100 * RESTING } else { 100 };
    percent > 0 && part > 0 && u128::from(part) * u128::from(times) >= u128::from(all) * u128::from(percent)
}

/// Whether a table is to be written anew, for what it can leave out where nothing lies below.
pub fn is_worth_rewriting(contents: &Contents, percent: u64, resting: bool) -> bool {
    exceeds(contents.garbage(), contents.entries + contents.ranges.len() as u64, percent, resting)
}

/// The first merge that tombstones pay for, from above; `None` if there is none. `admits` says which may begin.
pub fn plan(situation: &Situation<'_>, admits: impl Fn(&Plan) -> bool) -> Option<Plan> {
    let Situation { version, limits, busy, .. } = situation;
    if limits.tombstone_compaction_percent == 0 {
        return None;
    }
    let resting = busy.lull.is_long();
    let of_level = |level: usize| version.levels[level].tables().map(move |table| (level, table));
    let tables = (0..LEVELS).flat_map(of_level);
    let hides = |contents: &Contents| {
        let dense = contents.tombstones.saturating_mul(8) >= contents.entries;
        contents.has_tombstones() && dense || contents.shadowed > 0 || !contents.ranges.is_empty()
    };
    let average = if situation.hiding_share > 0.0 { average_of_deepest(situation) } else { 0 };
    let may_hide = |table: &TableRef| {
        let small =
            |contents: &Contents| contents.entries > 0 && table.meta.bytes / contents.entries < average / LARGER;
        table.contents().is_some_and(|contents| resting || hides(contents) || small(contents))
    };
    let free = tables.filter(|(_, table)| may_hide(table) && !busy.has(table.meta.id));
    free.filter_map(|(level, table)| of_table(situation, level, table, resting)).find(admits)
}

/// Bytes of an entry of the deepest level, on average.
fn average_of_deepest(situation: &Situation<'_>) -> u64 {
    let deepest = situation.version.levels.iter().rev().flat_map(|level| level.runs.first()).next();
    let known = deepest
        .iter()
        .flat_map(|run| run.iter())
        .filter_map(|table| Some((table.meta.bytes, table.contents()?.entries)));
    let (bytes, entries) =
        known.fold((0_u64, 0_u64), |(bytes, entries), (b, e)| (bytes.saturating_add(b), entries + e));
    bytes.checked_div(entries).unwrap_or(0)
}

/// What to do for `table`, if that pays.
fn of_table(situation: &Situation<'_>, level: usize, table: &Arc<TableRef>, resting: bool) -> Option<Plan> {
    let Situation { order, version, limits, .. } = situation;
    let (percent, span) = (limits.tombstone_compaction_percent, table.span());
    let contents = table.contents()?;
    let meets = |table: &TableRef, below: &usize| {
        version.levels[*below].stretches(order, &table.span()).any(|met| !met.is_empty())
    };
    let below =
        |tables: &[Arc<TableRef>]| (level + 1..LEVELS).find(|below| tables.iter().any(|table| meets(table, below)));
    if level > 0
        && let Some(below) = below(std::slice::from_ref(table))
    {
        // Before a plan is made: most do not pay, and are looked at often.
        let met = version.levels[below].overlapping(order, &span);
        let gain = gain(situation, std::slice::from_ref(table), &met, false);
        return gain.pays(percent, resting).then(|| grown_from(situation, level, table.clone()));
    }
    let is_worth = || is_free(situation, contents) && is_worth_rewriting(contents, percent, resting);
    if level > 0 {
        // It may be the last level: nothing can go down from there.
        let tables = || with_boundaries(situation, level, vec![table.clone()]);
        return is_worth().then(|| Plan::in_place(situation, level, tables()));
    }
    let plan = grown_from(situation, 0, table.clone());
    let pays = match below(&plan.upper) {
        Some(below) => {
            let met = if plan.lower.is_empty() {
                version.levels[below].overlapping(order, &span)
            } else {
                plan.lower.clone()
            };
            // Under load level 0 will soon be due by its runs: what they hide of each other can wait.
            gain(situation, &plan.upper, &met, resting).pays(percent, resting)
        }
        None if plan.upper.len() == 1 => {
            return (resting && is_worth()).then_some(Plan { trivial_move: false, ..plan });
        }
        None => resting && gain(situation, &plan.upper, &[], true).pays(percent, resting),
    };
    pays.then_some(plan)
}

/// Whether no snapshot is older than anything in the table.
fn is_free(situation: &Situation<'_>, contents: &Contents) -> bool {
    contents.newest <= situation.oldest_reader
}

/// What merging `upper` with `lower` yields; of level 0, `upper` hides some of itself.
fn gain(situation: &Situation<'_>, upper: &[Arc<TableRef>], lower: &[Arc<TableRef>], within: bool) -> Gain {
    let mut gain = Gain { upper_bytes: bytes(upper), share: situation.hiding_share, ..Gain::default() };
    for contents in upper.iter().filter_map(|table| table.contents()) {
        gain.upper_entries += contents.entries;
        gain.tombstones += contents.tombstones;
    }
    let ranges = || upper.iter().filter_map(|table| table.contents()).flat_map(|contents| &contents.ranges);
    let mut met = |tables: &[Arc<TableRef>]| {
        for table in tables {
            gain.lower_bytes += table.meta.bytes;
            gain.lower_entries += match table.contents() {
                Some(contents) if contents.entries > 0 => contents.entries,
                _ => table.meta.bytes.div_ceil(ENTRY_BYTES),
            };
            let part = ranges().map(|range| covers(situation.order, range, table)).max().unwrap_or(0);
            gain.covered += table.meta.bytes / 2 * part;
        }
    };
    met(lower);
    if within {
        met(upper);
        gain.upper_bytes = 0; // it is among what is met
    }
    gain
}

/// How many halves of `table` a range covers.
fn covers(order: &KeyOrder, (from, to): &(Vec<u8>, Vec<u8>), table: &TableRef) -> u64 {
    let begins = order.user(from, table.smallest()).is_le();
    let ends = order.user(to, table.largest()).is_gt();
    let range = KeyRange { from: Some(from), to: Some(to) };
    match (begins, ends) {
        (true, true) => 2,
        _ if table.overlaps(order, &range) => 1,
        _ => 0,
    }
}

/// Whether a table that is to move as it is had better be written, as it may leave much out where it comes to lie.
pub fn sheds(situation: &Situation<'_>, table: &TableRef, output_level: usize) -> bool {
    let Limits { tombstone_compaction_percent: percent, .. } = *situation.limits;
    let sheds = |contents: &Contents| is_free(situation, contents) && is_worth_rewriting(contents, percent, false);
    let is_bottom = || {
        let below = &situation.version.levels[output_level + 1..];
        below.iter().all(|level| level.stretches(situation.order, &table.span()).all(<[_]>::is_empty))
    };
    percent > 0 && table.contents().is_some_and(sheds) && is_bottom()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tombstones_pay_with_what_they_hide() {
        const MIB: u64 = 1 << 20;
        let gain = |tombstones, puts, upper_bytes, lower_entries, covered, share| Gain {
            upper_bytes,
            upper_entries: tombstones + puts,
            tombstones,
            lower_bytes: 20 * MIB,
            lower_entries,
            covered,
            share,
        };
        for (gain, hidden, pays, pays_at_rest) in [
            (gain(0, 0, 0, 20, 0, 0.0), 0, false, false),
            (gain(10, 0, 100, 20, 0, 0.0), 10 * MIB, false, true), // and what they are themselves
            (gain(11, 0, 100, 20, 0, 0.0), 11 * MIB, true, true),
            (gain(30, 0, 100, 20, 0, 0.0), 20 * MIB, true, true), // no more than there is
            (gain(10_300, 0, 100, 0, 0, 0.0), 10_300 << 10, true, true), // of 1 KiB, if nobody knows
            (gain(0, 10, 10 * MIB, 20, 0, 1.0), 0, false, true),  // puts of as much, at rest
            (gain(0, 10, 10 * MIB, 20, 0, 0.1), 0, false, false), // or new ones
            (gain(0, 15, 15, 20, 0, 1.0), 15 * MIB, true, true),  // small ones
            (gain(0, 0, 0, 20, 10 * MIB, 0.0), 10 * MIB, true, true),
            (gain(1, 9, MIB, 20, 2 * MIB, 0.0), 3 * MIB, false, true),
        ] {
            assert_eq!(gain.hidden(false), hidden, "{gain:?}");
            assert_eq!([gain.pays(50, false), gain.pays(50, true)], [pays, pays_at_rest], "{gain:?}");
            assert!(!gain.pays(0, true), "off");
        }
    }

    #[test]
    fn what_lies_at_the_bottom_is_written_without_its_garbage() {
        let of = |entries, tombstones, shadowed| Contents { entries, tombstones, shadowed, ..Contents::default() };
        let ranges = Contents { ranges: vec![(vec![1], vec![2])], ..of(1, 0, 0) };
        for (contents, load, rest) in [
            (of(0, 0, 0), false, false),
            (of(100, 12, 0), false, false),
            (of(100, 13, 0), false, true),
            (of(100, 50, 0), true, true),
            (of(100, 0, 50), true, true),
            (ranges, true, true),
        ] {
            let worth = [false, true].map(|resting| is_worth_rewriting(&contents, 50, resting));
            assert_eq!(worth, [load, rest], "{contents:?}");
        }
    }
}
