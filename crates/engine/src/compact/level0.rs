//! What is peculiar to level 0. Its runs overlap, so they can all go down only together, and every one of them costs a read. While
//! level 1 is busy, the newest are merged among themselves, and the older may go without them; while they bring little, they may wait.
//!
//! Runs of level 0 are ordered by number. The one output of such a merge takes the number that was kept free right
//! above the newest input's, so it stands exactly where its inputs stood, also for a reader that knows only numbers.
use super::{
    leveled::{bytes, complete},
    plan::{Plan, Situation},
};
use crate::version::{TableRef, spare_above};
use std::sync::Arc;

/// Whether level 0, due by its runs, had better wait for more of them: they bring little for what would be written anew in level 1,
/// somebody writes, and they do not press. Those that press are all that readers search, also runs that are on their way down: else
/// new ones would pile up unmerged behind one long merge until writers stop.
pub fn waits(situation: &Situation<'_>) -> bool {
    let Situation { order, version, busy, limits, .. } = situation;
    let pressing = version.levels[0].runs.len() as u64 >= limits.l0_pressing_runs;
    if limits.level0_min_overlap_percent == 0
        || limits.max_entries_for_level_base > 0
        || pressing
        || busy.lull.is_resting()
    {
        return false;
    }
    let free: Vec<&Arc<TableRef>> = version.levels[0]
        .tables()
        .filter(|table| !busy.has(table.meta.id) && busy.damage_of(table.meta.id).is_none())
        .collect();
    let is_met = |table: &&Arc<TableRef>| free.iter().any(|run| table.overlaps(order, &run.span()));
    let sum = |bytes: u128, table: &Arc<TableRef>| bytes + u128::from(table.meta.bytes);
    let brings = free.iter().copied().fold(0, sum);
    let meets = version.levels[1].tables().filter(is_met).fold(0, sum);
    brings * 100 < meets * u128::from(limits.level0_min_overlap_percent)
}

/// A merge of neighbouring free runs, the newest that can be had, as many as make it cheaper per run; `None` if they
/// are too few.
pub fn merge_within(situation: &Situation<'_>) -> Option<Plan> {
    let Situation { version, busy, limits, .. } = situation;
    let least = usize::try_from(limits.intra_l0_compaction_trigger).ok().filter(|least| *least > 0)?;
    let is_free = |table: &&Arc<TableRef>| !busy.has(table.meta.id) && busy.damage_of(table.meta.id).is_none();
    let newest = |table: &&Arc<TableRef>| is_free(table) && situation.spares.contains(&spare_above(table.meta.id));
    let mut upper: Vec<Arc<TableRef>> = Vec::new();
    for table in version.levels[0].tables().skip_while(|table| !newest(table)).take_while(is_free) {
        let (runs, sum) = (upper.len() as u64, bytes(&upper));
        // Merging k runs into one spares k − 1 of them; a long run among short ones is not worth its copy.
        let with = sum.saturating_add(table.meta.bytes);
        let dearer = runs >= 2 && u128::from(with) * u128::from(runs - 1) > u128::from(sum) * u128::from(runs);
        if dearer || with > limits.expanded_bytes() {
            break;
        }
        upper.push(table.clone());
    }
    (upper.len() >= least.max(2)).then(|| Plan {
        level: 0,
        output_level: 0,
        number: Some(spare_above(upper[0].meta.id)),
        upper,
        lower: Vec::new(),
        grandparents: Vec::new(),
        pointer: Vec::new(),
        version: situation.copied(),
        trivial_move: false,
        only_collects: false,
    })
}

/// What `plan` can do for level 0 without its busy runs and everything newer than they are: no older run that meets
/// a chosen one stays behind. `None` if that is nothing, or no less than `plan`.
pub fn older_part(situation: &Situation<'_>, plan: &Plan) -> Option<Plan> {
    let busy = |table: &&Arc<TableRef>| situation.busy.has(table.meta.id);
    let oldest_busy = plan.upper.iter().filter(busy).map(|table| table.meta.id).min().filter(|_| plan.level == 0)?;
    let older: Vec<_> = plan.upper.iter().filter(|table| table.meta.id < oldest_busy).cloned().collect();
    (!older.is_empty()).then(|| complete(situation, 0, older, true))
}
