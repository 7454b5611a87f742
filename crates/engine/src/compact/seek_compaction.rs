//! Seek compactions: a table that many reads probe without finding their key is merged into the
//! next level.
//!
//! LevelDB gives each table a seek budget: the number of fruitless reads after which the table is
//! compacted. The budget is proportional to the size of the table, because LevelDB assumes that a
//! compaction of the table reads ten times as many bytes from the next level, whatever the real
//! overlap is. A Terrace option can set how many bytes of compaction one seek is worth. Terrace
//! then computes the budget from the bytes that the compaction really reads, which are called its
//! price.
use super::{
    inputs::{bytes, expand_table},
    plan::{Plan, span},
    situation::Situation,
};
use crate::version::{KeyRange, TableRef};
use std::sync::Arc;
use terrace_format::{LEVELS, TableId};

/// Picks the compaction of the table whose seek budget is exhausted, if there is one.
pub fn plan(ctx: &Situation<'_>) -> Option<Plan> {
    let (level, id) = ctx.seek_hint?;
    Some(expand_table(ctx, level, find(ctx, level, id)?.clone()))
}

/// Returns the table `id` of `level` and the price of its compaction: the number of bytes that the
/// compaction reads. Returns `None` if `level` does not have the table or is the last level. If
/// the table overlaps no table of the next level, its compaction would only move or rewrite it,
/// and would save no seek. The price then also counts the bytes that the table overlaps in the
/// first deeper level with an overlap, because only there can the table be merged.
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

/// Returns the seek hint (the request for a seek compaction) for table `id` that remains when the
/// compaction `plan`, which has this table as an input, starts. A merge satisfies the hint, but a
/// trivial move saves no seek. So if the compaction is a trivial move and the fruitless reads of
/// the table have paid the whole price of a merge, the hint remains, with the new level of the
/// table.
pub fn left_of_hint(plan: &Plan, id: TableId, whole_price_paid: bool) -> Option<(usize, TableId)> {
    (whole_price_paid && plan.trivial_move).then_some((plan.output_level, id))
}

/// Returns the table with number `id` if it is in `level`, and `level` is not the last level.
fn find<'a>(ctx: &Situation<'a>, level: usize, id: TableId) -> Option<&'a Arc<TableRef>> {
    let found = ctx.version.named(&[(level, id)]).next();
    found.filter(|(level, _)| level + 1 < LEVELS).map(|(_, table)| table)
}
