//! LevelDB's leveled compaction policy: each level below level 0 is one sorted run, and the level
//! with the highest score gives one SSTable to the next level.
//!
//! A level is due for a compaction when its score is 1 or more. The score depends on:
//!
//! - Level 0: the number of its sorted runs. In an idle store with dynamic level bytes the score
//!   depends on the bytes of level 0 too. Even if level 0 is due, it may wait for more runs
//!   ([`level0`]).
//! - Level n ≥ 1: its bytes, compared to its target size ([`LevelTargets`]).
//! - With an entry limit, each level: the number of its entries (the target is base · 10^n). A
//!   table with an unknown number of entries counts by its bytes.
//!
//! The policy picks the tables of a level round-robin over the key space, or it picks the table
//! with the least overlap with the next level. A level that moves down as a whole
//! ([`move_level_down`]) has priority over all others. If running compactions block the inputs of
//! a due level, the policy reserves these inputs: no compaction of a less urgent level may start
//! if it overlaps them.
//!
//! A level that another policy has left with several sorted runs is always due. Its overlapping
//! tables move down together, as tables of level 0 do.
//!
//! Source: LevelDB's `version_set.cc`. With LevelDB's limits, this policy picks the same tables as
//! LevelDB for the same history.
use super::{
    inputs::{bytes, expand_inputs, expand_table, has_several_runs, lower_inputs, overlapping, sum_bytes},
    level_targets::{self, LevelTargets},
    level0,
    limits::Limits,
    move_level_down,
    plan::Plan,
    policy::Policy,
    reservation::Reservation,
    seek_compaction,
    situation::Situation,
    tombstones,
};
use crate::version::{KeyRange, LevelTotals, TableRef, Version};
use std::sync::Arc;
use terrace_format::LEVELS;

/// The leveled policy. It is stateless.
#[derive(Debug, Default)]
pub struct Leveled;

/// Returns the compaction score of `level`. A level with a score of 1 or more is due for a
/// compaction. `idle` states whether the store is idle.
pub fn score(limits: &Limits, sizes: &LevelTargets, level: usize, totals: &LevelTotals, idle: bool) -> f64 {
    let entries = match limits.max_entries_for_level_base {
        0 => 0.0,
        base => totals.entries as f64 / (base as f64 * 10f64.powi(level as i32)),
    };
    if level == 0 {
        // In an idle store with dynamic level bytes, level 0 also has a score by bytes. The output
        // of an intra-L0 compaction counts as only one run and costs a point lookup one probe, but
        // a scan still reads all of its entries.
        let l0_bytes = if limits.is_dynamic() && idle {
            totals.bytes as f64 / limits.max_bytes_for_level_base as f64
        } else {
            0.0
        };
        return entries.max(l0_bytes).max(totals.tables as f64 / limits.level0_file_num_compaction_trigger as f64);
    }
    let bytes = if limits.max_entries_for_level_base > 0 { totals.uncounted_bytes } else { totals.bytes };
    entries + bytes as f64 / sizes.of(level) as f64
}

impl Policy for Leveled {
    fn plan(&self, ctx: &Situation<'_>) -> Option<Plan> {
        let mut reserved: Vec<Reservation> = ctx.busy.wanted().cloned().into_iter().collect();
        let held = ctx.version.held();
        if let Some(plan) = move_level_down::move_level_down(ctx, &held) {
            if admits(ctx, &reserved, &plan) {
                return Some(plan);
            }
            // If a running compaction blocks the inputs, they are reserved, because that compaction
            // will end. If a damaged table blocks the inputs, they are not reserved, because the
            // damage does not end.
            if ctx.busy.damage(ctx.order, &plan).is_none() {
                reserved.push(Reservation::of(ctx.order, &plan));
            }
        }
        for level in due(ctx, &held) {
            let blocked = match pick_table(ctx, level, &reserved) {
                Pick::Plan(plan) => return Some(plan),
                Pick::Blocked(reservation) => reservation,
                Pick::None => continue,
            };
            if level == 0
                && let Some(plan) = level0::pick_intra_l0(ctx).filter(|plan| admits(ctx, &reserved, plan))
            {
                return Some(plan);
            }
            reserved.push(blocked);
        }
        let seek_plan = seek_compaction::plan(ctx).filter(|plan| admits(ctx, &reserved, plan));
        seek_plan.or_else(|| tombstones::plan(ctx, |plan| admits(ctx, &reserved, plan)))
    }

    fn plan_range(&self, ctx: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Option<Plan> {
        let mut upper = overlapping(ctx, level, range);
        if level > 0 && !has_several_runs(ctx, level) {
            // The plan takes tables until their total size is about the size of one output table,
            // so that a large range does not become one large compaction. The plan takes fewer
            // tables if they overlap many bytes in the next level, as small tables of tombstones
            // do.
            let (mut sum, mut lower_bytes) = (0u64, 0u64);
            let full = upper.iter().position(|table| {
                sum = sum.saturating_add(table.meta.bytes);
                lower_bytes =
                    lower_bytes.saturating_add(bytes(&lower_inputs(ctx, level + 1, std::slice::from_ref(table))));
                sum >= ctx.limits.target_file_size || lower_bytes >= ctx.limits.grandparent_bytes()
            });
            upper.truncate(full.map_or(upper.len(), |at| at + 1));
        }
        let trivial_moves = false; // a manual compaction rewrites its inputs
        (!upper.is_empty()).then(|| expand_inputs(ctx, level, upper, trivial_moves))
    }

    /// Returns the level for a flushed table with keys of `range`: the deepest level, at most level
    /// 2, that meets LevelDB's rule. The rule: no table overlaps the range in level 0 and in all
    /// levels down to the returned one, and the range overlaps at most `grandparent_bytes` in the
    /// level below it. If a table of level 0 overlaps the range, the result is 0.
    fn level_for_flush(&self, ctx: &Situation<'_>, range: &KeyRange<'_>) -> usize {
        let deepest = if ctx.limits.is_dynamic() { level_targets::last(&ctx.version.held()).min(2) } else { 2 };
        let levels = &ctx.version.levels;
        let overlaps = |level: usize| levels[level].overlap_slices(ctx.order, range).any(|tables| !tables.is_empty());
        if overlaps(0) {
            return 0;
        }
        let below = |level: usize| -> u64 { sum_bytes(levels[level].overlap_slices(ctx.order, range).flatten()) };
        (1..=deepest)
            .take_while(|&level| !overlaps(level) && below(level + 1) <= ctx.limits.grandparent_bytes())
            .last()
            .unwrap_or(0)
    }

    fn debt(&self, limits: &Limits, version: &Version) -> u64 {
        limits.debt(&version.held())
    }

    fn stall_runs(&self, version: &Version) -> u64 {
        version.levels[0].runs.len() as u64
    }
}

/// The result of the search for inputs in a level that is due.
enum Pick {
    Plan(Plan),
    /// A running compaction blocks the tables that the policy would choose first. The reservation
    /// contains the inputs of this choice.
    Blocked(Reservation),
    /// All tables of the level are inputs of running compactions or are blocked by damage.
    None,
}

/// Returns the levels that are due, with the highest score first. The scores do not count tables
/// that are being compacted. Level 0 is left out while it should wait for more runs.
fn due(ctx: &Situation<'_>, held: &[u64; LEVELS]) -> Vec<usize> {
    let sizes = ctx.limits.level_targets(held);
    let mut due: Vec<(f64, usize)> = (0..LEVELS - 1)
        .map(|n| {
            let totals = ctx.version.levels[n].totals().minus(&ctx.busy.leaving(ctx.family, n));
            let by_size = score(ctx.limits, &sizes, n, &totals, ctx.busy.idle.is_idle());
            (if has_several_runs(ctx, n) { by_size.max(1.0) } else { by_size }, n)
        })
        .filter(|(score, level)| *score >= 1.0 && !(*level == 0 && level0::should_wait(ctx)))
        .collect();
    due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    due.into_iter().map(|(_, level)| level).collect()
}

/// Returns whether `plan` conflicts neither with a running compaction nor with a reservation.
fn admits(ctx: &Situation<'_>, reserved: &[Reservation], plan: &Plan) -> bool {
    let blocks_reserved = || {
        let reservation = Reservation::of(ctx.order, plan);
        reserved.iter().any(|other| !other.is_disjoint(ctx.order, &reservation))
    };
    ctx.busy.admits(ctx.order, plan) && (reserved.is_empty() || !blocks_reserved())
}

/// Picks a table of `level` whose compaction can start now: the first such table in the order of
/// the policy.
fn pick_table(ctx: &Situation<'_>, level: usize, reserved: &[Reservation]) -> Pick {
    let by_overlap = ctx.limits.min_overlapping_ratio && level > 0;
    let candidates = if by_overlap { by_min_overlap(ctx, level) } else { round_robin(ctx, level) };
    let mut blocked = Pick::None;
    for table in candidates {
        if ctx.busy.has(table.meta.id) {
            continue;
        }
        let plan = level0::runs_that_fit(ctx, expand_table(ctx, level, table.clone()));
        if admits(ctx, reserved, &plan) {
            return Pick::Plan(plan);
        }
        if let Some(plan) = level0::older_runs_only(ctx, &plan).filter(|plan| admits(ctx, reserved, plan)) {
            return Pick::Plan(plan);
        }
        if matches!(blocked, Pick::None) && ctx.busy.damage(ctx.order, &plan).is_none() {
            blocked = Pick::Blocked(Reservation::of(ctx.order, &plan));
        }
    }
    blocked
}

/// Returns all tables of `level` in key order, as a round-robin: the list starts after the key at
/// which the level's last compaction ended, and continues from the level's last table to its
/// first.
fn round_robin<'a>(ctx: &Situation<'a>, level: usize) -> Box<dyn Iterator<Item = &'a Arc<TableRef>> + 'a> {
    let (runs, pointer) = (&ctx.version.levels[level].runs, ctx.pointer(level));
    let is_passed = |table: &Arc<TableRef>| ctx.order.internal(&table.meta.largest, pointer).is_le();
    if let ([run], 1..) = (&runs[..], level) {
        let start = if pointer.is_empty() { 0 } else { run.partition_point(is_passed) % run.len() };
        return Box::new(run.range(start..run.len()).chain(run.range(0..start)));
    }
    // As in LevelDB, the tables of level 0 are in order of age, the oldest first.
    let mut tables: Vec<_> = runs.iter().rev().flat_map(|run| run.iter()).collect();
    let first = tables.iter().position(|table| !pointer.is_empty() && !is_passed(table));
    tables.rotate_left(first.unwrap_or(0));
    Box::new(tables.into_iter())
}

/// Returns the tables of `level`, the cheapest to compact first. The cost of a table is the ratio
/// of the bytes that it overlaps in the next level to its own bytes.
fn by_min_overlap<'a>(ctx: &Situation<'a>, level: usize) -> Box<dyn Iterator<Item = &'a Arc<TableRef>> + 'a> {
    let below = &ctx.version.levels[level + 1];
    let cost = |table: &TableRef| {
        let lower_bytes = sum_bytes(below.overlap_slices(ctx.order, &table.span()).flatten());
        lower_bytes as f64 / table.meta.bytes.max(1) as f64
    };
    let mut tables: Vec<_> = ctx.version.levels[level].tables().map(|table| (cost(table), table)).collect();
    tables.sort_by(|a, b| a.0.total_cmp(&b.0));
    Box::new(tables.into_iter().map(|(_, table)| table))
}
