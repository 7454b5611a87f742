//! Seek compactions: tables that reads probe without finding the key are merged into the next
//! level.
//!
//! LevelDB gives each table a seek budget by its size, assuming that its compaction reads ten
//! times as many bytes from the next level; so a compaction costs the same however much it
//! overlaps. Where an option sets the worth of a seek in bytes, a table must pay for the bytes
//! that its compaction reads.
use super::{
    inputs::{bytes, expand_table},
    plan::{Plan, span},
    situation::Situation,
};
use crate::version::{KeyRange, TableRef};
use std::sync::Arc;
use terrace_format::{LEVELS, TableId};

/// Picks the compaction of the table whose seek budget is exhausted.
pub fn plan(ctx: &Situation<'_>) -> Option<Plan> {
    let (level, id) = ctx.seek_hint?;
    Some(expand_table(ctx, level, find(ctx, level, id)?.clone()))
}

/// Returns a table above the last level and the bytes that its compaction reads. If the table
/// overlaps nothing in the next level, the compaction moves or rewrites it and saves no seek;
/// then the bytes it first overlaps further down are added.
pub fn price<'a>(ctx: &Situation<'a>, (level, id): (usize, TableId)) -> Option<(&'a Arc<TableRef>, u64)> {
    let table = find(ctx, level, id)?;
    let plan = expand_table(ctx, level, table.clone());
    let (from, to) = span(ctx.order, plan.upper.iter()).expect("a plan has inputs");
    let range = KeyRange { from: Some(from), to: Some(to) };
    let below = if plan.lower.is_empty() { &ctx.version.levels[level + 2..] } else { &[] };
    let lower_bytes =
        below.iter().map(|below| bytes(&below.overlapping(ctx.order, &range))).find(|lower_bytes| *lower_bytes > 0);
    Some((table, plan.bytes().saturating_add(lower_bytes.unwrap_or(0))))
}

/// Returns the seek hint (the request for a seek compaction) that remains for table `id` when
/// `plan`, which compacts it, starts. A trivial move does not satisfy the hint: if the table's
/// seeks have paid for a merge, it stays.
pub fn left_of_hint(plan: &Plan, id: TableId, whole_price_paid: bool) -> Option<(usize, TableId)> {
    (whole_price_paid && plan.trivial_move).then_some((plan.output_level, id))
}

/// Returns table `id` if `level` has it and is not the last level.
fn find<'a>(ctx: &Situation<'a>, level: usize, id: TableId) -> Option<&'a Arc<TableRef>> {
    let found = ctx.version.named(&[(level, id)]).next();
    found.filter(|(level, _)| level + 1 < LEVELS).map(|(_, table)| table)
}
