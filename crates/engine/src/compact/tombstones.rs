//! Tombstone compactions: compactions of SSTables whose tombstones make many bytes reclaimable.
//!
//! A level is due by its bytes, but a tombstone has few bytes and may shadow many. Without
//! tombstone compactions a tombstone would stay above the entries that it shadows until its level
//! is full. This never happens if writes stop or use other keys.
//!
//! A tombstone compaction must reclaim enough bytes for the bytes that it reads. The bytes that a
//! table makes reclaimable are estimated from the first level below it that has keys of its range:
//! one entry of average size for each tombstone, plus the bytes that the range tombstones of the
//! table cover. The policy picks the table when these bytes are at least
//! `tombstone_compaction_percent` of the input bytes. While the store is idle, a quarter of this
//! percentage is sufficient.
//!
//! This rule bounds two amounts. First, a tombstone causes at most one tombstone compaction per
//! level, and the cost of that compaction is bounded by the bytes that it frees. Second, the
//! garbage in a level is at most `tombstone_compaction_percent` of the bytes of the level and of
//! the tables that shadow it.
//!
//! If no older table is below a table, the table is rewritten in place. The rewrite drops the
//! table's tombstones, and the entries that only released snapshots saw. It starts once such
//! entries are `tombstone_compaction_percent` of the table's entries. This module does no I/O.
use super::{
    gain::{ENTRY_BYTES, Gain, SIZE_RATIO, is_worth_rewriting, visible_to_all},
    inputs::{bytes, expand_table, has_several_runs, in_place, with_boundaries},
    plan::Plan,
    situation::Situation,
};
use crate::version::{Contents, KeyRange, TableRef, Version};
use std::sync::Arc;
use terrace_format::{KeyOrder, LEVELS};

/// Picks the first tombstone compaction that reclaims enough bytes, from level 0 down. `admits`
/// checks whether a plan may start.
///
/// This function runs under the state lock after every change of the store, so it must not visit
/// all tables. Each chunk of a level's tables therefore records which of its tables have much
/// garbage. When no tombstone compaction pays off, the version records this too.
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
    // Entries in upper levels that are smaller than `small` bytes are expected to shadow larger
    // entries in deeper levels.
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

/// Picks the same compaction as [`plan`] with a scan of all tables. Tests compare the two.
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
    /// The number of tables that [`plan`] has visited in this thread.
    pub static VISITED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn visited() {
    #[cfg(test)]
    VISITED.set(VISITED.get() + 1);
}

/// Returns the average size of an entry in the deepest level of `version`, in bytes.
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

/// Returns the compaction of `table` if its tombstones make enough bytes reclaimable.
fn of_table(ctx: &Situation<'_>, level: usize, table: &Arc<TableRef>, idle: bool) -> Option<Plan> {
    let Situation { order, version, limits, .. } = ctx;
    if has_several_runs(ctx, level) {
        return None; // the level is due anyway
    }
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
        // The gain is estimated before a plan is made, because this check runs often and most
        // tables do not gain enough.
        let lower = version.levels[first_below].overlapping(order, &span);
        let gain = gain(ctx, std::slice::from_ref(table), &lower, false);
        return gain.pays_off(percent, idle).then(|| expand_table(ctx, level, table.clone()));
    }
    let is_worth = || visible_to_all(ctx, contents) && is_worth_rewriting(contents, percent, idle);
    if level > 0 {
        // No deeper level has a table with keys of this table's range, and the table's level may be
        // the last one. So the table is rewritten in place.
        let tables = || with_boundaries(ctx, level, vec![table.clone()]);
        return is_worth().then(|| in_place(ctx, level, tables()));
    }
    let plan = expand_table(ctx, 0, table.clone());
    let pays_off = match first_below(&plan.upper) {
        Some(first_below) => {
            let lower = if plan.lower.is_empty() {
                version.levels[first_below].overlapping(order, &span)
            } else {
                plan.lower.clone()
            };
            // While the store receives writes, level 0 will soon be due by its number of runs.
            // Garbage that the runs of level 0 shadow among themselves can wait until then.
            gain(ctx, &plan.upper, &lower, idle).pays_off(percent, idle)
        }
        None if plan.upper.len() == 1 => {
            return (idle && is_worth()).then_some(Plan { trivial_move: false, ..plan });
        }
        None => idle && gain(ctx, &plan.upper, &[], true).pays_off(percent, idle),
    };
    pays_off.then_some(plan)
}

/// Estimates the gain of a compaction of the tables `upper` into the tables `lower`. `within` is
/// set if the tables of `upper` are runs of level 0, because such runs also shadow entries of each
/// other.
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
        gain.upper_bytes = 0; // these bytes are included in the lower bytes
    }
    gain
}

/// Returns how many halves of `table` the range from `from` to `to` covers: 0, 1 or 2.
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
