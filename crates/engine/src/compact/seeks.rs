//! Tables that reads ask in vain. LevelDB lets each cost so many seeks as its bytes are worth, on the assumption that it meets ten times as
//! many below: a merge costs the same whatever it meets. Where `worth` is given, a table has to have paid for what it really meets.
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

/// Whether the seeks of table `id`, which has used up those that its own bytes allow, have paid for its merge, at `worth` bytes
/// that it reads for each. If not, the table is allowed what is missing, once. A table that would only be moved has to pay for the merge
/// that comes next: a move alone spares nobody a seek.
pub fn have_paid(situation: &Situation<'_>, (level, id): (usize, TableId), worth: u64) -> bool {
    let Some(table) = find(situation, level, id) else { return false };
    let upper = grown_from(situation, level, table.clone()).upper;
    let (from, to) = span(situation.order, upper.iter()).expect("a plan has inputs");
    let range = KeyRange { from: Some(from), to: Some(to) };
    let below = situation.version.levels[level + 1..].iter();
    let met = below.map(|level| bytes(&level.overlapping(situation.order, &range))).find(|met| *met > 0);
    table.is_worn_after(bytes(&upper).saturating_add(met.unwrap_or(0)) / worth)
}

/// Table `id`, if `level` has it and is not the last.
fn find<'a>(situation: &Situation<'a>, level: usize, id: TableId) -> Option<&'a Arc<TableRef>> {
    let levels = &situation.version.levels[..LEVELS - 1];
    levels.get(level)?.tables().find(|table| table.meta.id == id)
}
