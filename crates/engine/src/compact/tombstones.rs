//! Tombstone compactions: SSTables that are compacted for the garbage they make reclaimable.
//!
//! Levels are due by their bytes, but a tombstone has few bytes and may shadow many. Without this
//! policy it would stay above the entries it shadows until its level fills, which never happens
//! if writes stop or go to other keys.
//!
//! A table pays for its compaction with the bytes it is expected to reclaim in the first level
//! below that has its keys: as many entries of average size as it has tombstones, plus the bytes
//! that its range tombstones cover. It is picked when these are `tombstone_compaction_percent` of
//! the input bytes, or a quarter of that while the store is idle. So a tombstone is compacted for
//! its own sake at most once per level, at a price bounded by the bytes it frees, and at most
//! that share of a level and of the tables that shadow part of it is garbage.
//!
//! Where no table lies below, a table is rewritten without its tombstones and the entries that
//! only released snapshots saw, once these are the same share of it. Pure.
use super::{
    leveled::{bytes, expand_table, with_boundaries},
    plan::{Limits, Plan, Situation},
};
use crate::version::{Contents, KeyRange, TableRef, Version};
use std::sync::Arc;
use terrace_format::{KeyOrder, LEVELS};

/// In an idle store a share smaller by this factor is enough.
const IDLE_FACTOR: u64 = 4;
/// Puts count as shadowing under load too if the entries below are larger by this factor on
/// average: levels that are due by bytes do not see such garbage.
const SIZE_RATIO: u64 = 4;
/// Bytes of an entry if the number of entries is unknown.
const ENTRY_BYTES: u64 = 1 << 10;

/// Estimated gain of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// Bytes of the upper inputs.
    pub upper_bytes: u64,
    /// Entries of the upper inputs.
    pub upper_entries: u64,
    /// Tombstones among these entries.
    pub tombstones: u64,
    /// Bytes of the lower inputs.
    pub lower_bytes: u64,
    /// Entries of the lower inputs; 0 if unknown.
    pub lower_entries: u64,
    /// Bytes of the lower inputs that range tombstones cover.
    pub covered_bytes: u64,
    /// Share of the puts that shadow an older entry.
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

    /// Whether the reclaimed bytes pay for the compaction.
    pub fn pays_off(&self, percent: u64, idle: bool) -> bool {
        exceeds(self.reclaimable(idle), self.upper_bytes.saturating_add(self.lower_bytes), percent, idle)
    }
}

/// Whether `part` is a large enough share of `all` to be worth the rewrite.
fn exceeds(part: u64, all: u64, percent: u64, idle: bool) -> bool {
    let times = if idle { 100 * IDLE_FACTOR } else { 100 };
    percent > 0 && part > 0 && u128::from(part) * u128::from(times) >= u128::from(all) * u128::from(percent)
}

/// Whether a table with no older table below is worth a rewrite for the entries that this drops.
pub fn is_worth_rewriting(contents: &Contents, percent: u64, idle: bool) -> bool {
    exceeds(contents.garbage(), contents.entries.saturating_add(contents.ranges.len() as u64), percent, idle)
}

/// Picks the first compaction, from level 0 down, that tombstones pay for. `admits` checks
/// whether a plan may start.
///
/// Runs under the state lock after every change, so it does not visit all tables: a chunk of tables
/// remembers which of them have much garbage, and the version remembers that nothing paid off.
pub fn plan(ctx: &Situation<'_>, admits: impl Fn(&Plan) -> bool) -> Option<Plan> {
    let Situation { version, limits, busy, .. } = ctx;
    if limits.tombstone_compaction_percent == 0 {
        return None;
    }
    let idle = busy.idle.is_long_idle();
    let inputs =
        [limits.tombstone_compaction_percent, u64::from(idle), ctx.oldest_reader.0, ctx.shadow_ratio.to_bits()];
    if version.has_no_tombstone_plan(inputs) {
        return None;
    }
    // Entries smaller than this count as shadowing larger ones below.
    let small = if ctx.shadow_ratio > 0.0 { average_of_deepest(version) / SIZE_RATIO } else { 0 };
    let (mut is_complete, mut rejected) = (busy.is_empty(), false);
    for (level, chunk) in version.runs().iter().flat_map(|(level, run)| run.chunks().iter().map(move |c| (*level, c))) {
        let garbage = chunk.garbage();
        is_complete &= garbage.is_some();
        let is_candidate = |table: &&Arc<TableRef>| {
            visited();
            let is_small = |contents: &Contents| contents.entries > 0 && table.meta.bytes / contents.entries < small;
            let contents = table.contents();
            contents.is_some_and(|contents| idle || contents.has_much_garbage() || is_small(contents))
        };
        let all = idle || garbage.is_none_or(|garbage| garbage.smallest_entries.is_some_and(|bytes| bytes < small));
        let tables: Vec<_> = match garbage {
            Some(garbage) if !all => garbage.tables.iter().map(|at| &chunk.tables()[*at]).collect(),
            _ => chunk.tables().iter().filter(is_candidate).collect(),
        };
        for table in tables.into_iter().filter(|table| !busy.has(table.meta.id)) {
            if let Some(plan) = of_table(ctx, level, table, idle) {
                if admits(&plan) {
                    return Some(plan);
                }
                rejected = true;
            }
        }
    }
    if is_complete && !rejected {
        version.set_no_tombstone_plan(inputs);
    }
    None
}

/// [`plan`] by a scan of all tables.
#[cfg(test)]
pub fn plan_by_full_scan(ctx: &Situation<'_>, admits: impl Fn(&Plan) -> bool) -> Option<Plan> {
    let idle = ctx.busy.idle.is_long_idle();
    let small = if ctx.shadow_ratio > 0.0 { average_of_deepest(ctx.version) / SIZE_RATIO } else { 0 };
    let is_small =
        |table: &TableRef, contents: &Contents| contents.entries > 0 && table.meta.bytes / contents.entries < small;
    let is_candidate = |table: &Arc<TableRef>| {
        let contents = table.contents();
        contents.is_some_and(|contents| idle || contents.has_much_garbage() || is_small(table, contents))
    };
    let free = ctx.version.tables().filter(|(_, table)| is_candidate(table) && !ctx.busy.has(table.meta.id));
    let plans = free.filter_map(|(level, table)| of_table(ctx, level, table, idle)).find(admits);
    plans.filter(|_| ctx.limits.tombstone_compaction_percent > 0)
}

#[cfg(test)]
thread_local! {
    /// Tables that [`plan`] has visited.
    pub static VISITED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn visited() {
    #[cfg(test)]
    VISITED.set(VISITED.get() + 1);
}

/// Returns the average bytes of an entry in the deepest level.
fn average_of_deepest(version: &Version) -> u64 {
    let deepest = version.levels.iter().rev().flat_map(|level| level.runs.first()).next();
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    for chunk in deepest.iter().flat_map(|run| run.chunks()) {
        let mut add = |more: (u64, u64)| {
            (bytes, entries) = (bytes.saturating_add(more.0), entries.saturating_add(more.1));
        };
        match chunk.garbage() {
            Some(garbage) => add(garbage.counted),
            None => {
                let known = chunk.tables().iter().filter_map(|t| Some((t.meta.bytes, t.contents()?.entries)));
                known.for_each(add);
            }
        }
    }
    bytes.checked_div(entries).unwrap_or(0)
}

/// Returns the compaction of `table`, if it pays off.
fn of_table(ctx: &Situation<'_>, level: usize, table: &Arc<TableRef>, idle: bool) -> Option<Plan> {
    let Situation { order, version, limits, .. } = ctx;
    let (percent, span) = (limits.tombstone_compaction_percent, table.span());
    let contents = table.contents()?;
    let overlaps_level = |table: &TableRef, first_below: &usize| {
        version.levels[*first_below].overlap_slices(order, &table.span()).any(|lower| !lower.is_empty())
    };
    let first_below = |tables: &[Arc<TableRef>]| {
        (level + 1..LEVELS).find(|first_below| tables.iter().any(|table| overlaps_level(table, first_below)))
    };
    if level > 0
        && let Some(first_below) = first_below(std::slice::from_ref(table))
    {
        // Estimated before a plan is made: most tables do not pay off, and they are checked often.
        let lower = version.levels[first_below].overlapping(order, &span);
        let gain = gain(ctx, std::slice::from_ref(table), &lower, false);
        return gain.pays_off(percent, idle).then(|| expand_table(ctx, level, table.clone()));
    }
    let is_worth = || visible_to_all(ctx, contents) && is_worth_rewriting(contents, percent, idle);
    if level > 0 {
        // It may be the last level, so a rewrite in place.
        let tables = || with_boundaries(ctx, level, vec![table.clone()]);
        return is_worth().then(|| Plan::in_place(ctx, level, tables()));
    }
    let plan = expand_table(ctx, 0, table.clone());
    let pays_off = match first_below(&plan.upper) {
        Some(first_below) => {
            let lower = if plan.lower.is_empty() {
                version.levels[first_below].overlapping(order, &span)
            } else {
                plan.lower.clone()
            };
            // Under load level 0 will soon be due by its runs; garbage among its own runs can wait.
            gain(ctx, &plan.upper, &lower, idle).pays_off(percent, idle)
        }
        None if plan.upper.len() == 1 => {
            return (idle && is_worth()).then_some(Plan { trivial_move: false, ..plan });
        }
        None => idle && gain(ctx, &plan.upper, &[], true).pays_off(percent, idle),
    };
    pays_off.then_some(plan)
}

/// Whether all entries of the table are visible to every reader.
fn visible_to_all(ctx: &Situation<'_>, contents: &Contents) -> bool {
    contents.newest <= ctx.oldest_reader
}

/// Estimates a compaction of `upper` with `lower`. With `within`, for level 0, `upper` also
/// shadows parts of itself.
fn gain(ctx: &Situation<'_>, upper: &[Arc<TableRef>], lower: &[Arc<TableRef>], within: bool) -> Gain {
    let mut gain = Gain { upper_bytes: bytes(upper), shadow_ratio: ctx.shadow_ratio, ..Gain::default() };
    for contents in upper.iter().filter_map(|table| table.contents()) {
        gain.upper_entries = gain.upper_entries.saturating_add(contents.entries);
        gain.tombstones = gain.tombstones.saturating_add(contents.tombstones);
    }
    let ranges = || upper.iter().filter_map(|table| table.contents()).flat_map(|contents| &contents.ranges);
    let mut add = |tables: &[Arc<TableRef>]| {
        for table in tables {
            gain.lower_bytes = gain.lower_bytes.saturating_add(table.meta.bytes);
            let entries = match table.contents() {
                Some(contents) if contents.entries > 0 => contents.entries,
                _ => table.meta.bytes.div_ceil(ENTRY_BYTES),
            };
            let part = ranges().map(|range| halves_covered(ctx.order, range, table)).max().unwrap_or(0);
            gain.lower_entries = gain.lower_entries.saturating_add(entries);
            gain.covered_bytes = gain.covered_bytes.saturating_add(table.meta.bytes / 2 * part);
        }
    };
    add(lower);
    if within {
        add(upper);
        gain.upper_bytes = 0; // counted among the lower bytes
    }
    gain
}

/// Returns how many halves of `table` a range covers: 0, 1 or 2.
fn halves_covered(order: &KeyOrder, (from, to): &(Vec<u8>, Vec<u8>), table: &TableRef) -> u64 {
    let begins = order.user(from, table.smallest()).is_le();
    let ends = order.user(to, table.largest()).is_gt();
    let range = KeyRange { from: Some(from), to: Some(to) };
    match (begins, ends) {
        (true, true) => 2,
        _ if table.overlaps(order, &range) => 1,
        _ => 0,
    }
}

/// Whether a table about to be moved should be rewritten instead, because it can drop enough in
/// the output level.
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
            (gain(10, 0, 100, 20, 0, 0.0), 10 * MIB, false, true), // and the tombstones themselves
            (gain(11, 0, 100, 20, 0, 0.0), 11 * MIB, true, true),
            (gain(30, 0, 100, 20, 0, 0.0), 20 * MIB, true, true), // at most the bytes below
            (gain(10_300, 0, 100, 0, 0, 0.0), 10_300 << 10, true, true), // 1 KiB each if unknown
            // Puts of the same size, while idle.
            (gain(0, 10, 10 * MIB, 20, 0, 1.0), 0, false, true),
            (gain(0, 10, 10 * MIB, 20, 0, 0.1), 0, false, false), // or puts of new keys
            (gain(0, 15, 15, 20, 0, 1.0), 15 * MIB, true, true),  // small puts
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
