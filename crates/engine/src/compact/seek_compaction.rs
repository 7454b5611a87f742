//! Seek compactions: a table that many reads probe without finding their key is merged into the
//! next level.
//!
//! LevelDB gives each table a seek budget: the number of such reads after which the table is
//! compacted. The budget is proportional to the size of the table. LevelDB assumes that a
//! compaction of the table reads ten times as many bytes from the next level, whatever the real
//! overlap is. An option can set how many bytes of compaction one seek is worth. Terrace then
//! computes the budget from the bytes that the compaction really reads (its price).
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
/// the table overlaps no table of the next level, its compaction only moves or rewrites it, and
/// saves no seek. The price then includes the bytes that the table overlaps in the first deeper
/// level with an overlap, because the table can be merged only there.
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
/// compaction `plan` starts, of which the table is an input. A trivial move does not save a seek.
/// So if the reads of the table have paid the whole price of a merge, the hint remains after the
/// move, with the new level of the table.
pub fn left_of_hint(plan: &Plan, id: TableId, whole_price_paid: bool) -> Option<(usize, TableId)> {
    (whole_price_paid && plan.trivial_move).then_some((plan.output_level, id))
}

/// Returns the table with number `id` if it is in `level`, and `level` is not the last level.
fn find<'a>(ctx: &Situation<'a>, level: usize, id: TableId) -> Option<&'a Arc<TableRef>> {
    let found = ctx.version.named(&[(level, id)]).next();
    found.filter(|(level, _)| level + 1 < LEVELS).map(|(_, table)| table)
}
