//! Tables that reads ask in vain. LevelDB lets each cost so many seeks as its bytes are worth, on the assumption that it meets ten times as
//! many below: a merge costs the same whatever it meets. Where a seek has another worth, a table has to pay for what it really meets.
use super::{
    leveled::{bytes, grown_from},
    plan::{Plan, Situation, span},
};
use crate::version::{KeyRange, TableRef};
use std::sync::Arc;
use terrace_format::{LEVELS, TableId};

/// The merge of the table that has used up its seeks.
pub fn plan(situation: &Situation<'_>) -> Option<Plan> {
    let (level, id) = situation.seek_hint?;
    Some(grown_from(situation, level, find(situation, level, id)?.clone()))
}

/// A table of a level above the last, and the bytes that its merge reads. Where it meets nothing in the next level it is moved, or cut anew, which
/// spares nobody a seek: then with what it meets first below.
pub fn price<'a>(situation: &Situation<'a>, (level, id): (usize, TableId)) -> Option<(&'a Arc<TableRef>, u64)> {
    let table = find(situation, level, id)?;
    let plan = grown_from(situation, level, table.clone());
    let (from, to) = span(situation.order, plan.upper.iter()).expect("a plan has inputs");
    let range = KeyRange { from: Some(from), to: Some(to) };
    let below = if plan.lower.is_empty() { &situation.version.levels[level + 2..] } else { &[] };
    let met = below.iter().map(|below| bytes(&below.overlapping(situation.order, &range))).find(|met| *met > 0);
    Some((table, plan.bytes().saturating_add(met.unwrap_or(0))))
}

/// What is left of the hint for `id` as `plan` begins, which takes that table: where it only moves, its merge, if that is `paid`.
pub fn left_of_hint(plan: &Plan, id: TableId, paid: bool) -> Option<(usize, TableId)> {
    (paid && plan.trivial_move).then_some((plan.output_level, id))
}

/// Table `id`, if `level` has it and is not the last.
fn find<'a>(situation: &Situation<'a>, level: usize, id: TableId) -> Option<&'a Arc<TableRef>> {
    let levels = &situation.version.levels[..LEVELS - 1];
    levels.get(level)?.tables().find(|table| table.meta.id == id)
}
