//! Picks compactions of level 0.
//!
//! The runs of level 0 overlap each other, so they move to level 1 together. Every read must probe
//! each of these runs. While a compaction of level 1 runs, level 0 cannot move into level 1 as a
//! whole. Meanwhile the newest runs of level 0 can be merged with each other (intra-L0
//! compaction), or the older runs can move down without the newer ones. While level 0 is small
//! compared to level 1, its runs may wait.
//!
//! Runs of level 0 are ordered by table number. For each flushed table, the engine reserves the
//! number directly above the table's own number. The one output of an intra-L0 compaction takes
//! the number that is reserved above its newest input. So the output has the position of its
//! inputs even for a reader such as LevelDB that orders tables by their numbers only.
use super::{
    inputs::{bytes, expand_inputs},
    plan::Plan,
    situation::Situation,
};
use crate::version::{TableRef, reserved_above};
use std::sync::Arc;

/// Returns whether level 0 should wait for more runs, although its number of runs makes it due.
/// All of these conditions must be true:
///
/// - The bytes of level 0 are few compared to the bytes of level 1 that the compaction would
///   rewrite.
/// - The store receives writes.
/// - Level 0 has few runs, so reads are still fast. Runs that are being compacted count too.
///   Otherwise new runs would accumulate during one long compaction until writers stop.
pub fn should_wait(ctx: &Situation<'_>) -> bool {
    let Situation { order, version, busy, limits, .. } = ctx;
    let pressing = version.levels[0].runs.len() as u64 >= limits.l0_pressing_runs;
    if limits.level0_min_overlap_percent == 0
        || limits.max_entries_for_level_base > 0
        || pressing
        || busy.idle.is_idle()
    {
        return false;
    }
    let free: Vec<&Arc<TableRef>> = version.levels[0]
        .tables()
        .filter(|table| !busy.has(table.meta.id) && busy.damage_of(table.meta.id).is_none())
        .collect();
    let spans: Vec<_> = free.iter().map(|run| run.span()).collect();
    let upper_bytes: u128 = free.iter().map(|run| u128::from(run.meta.bytes)).sum();
    let lower_bytes = version.levels[1].overlapping_bytes(order, &spans);
    upper_bytes * 100 < lower_bytes * u128::from(limits.level0_min_overlap_percent)
}

/// Picks an intra-L0 compaction: a merge of neighbouring runs of level 0 that are not being
/// compacted. Some runs have a reserved table number, one above their own, for the output of such
/// a compaction. The first input is the newest run that has a reserved number. Older runs are
/// added as long as each of them lowers the bytes per removed run. Returns `None` if too few runs
/// qualify.
pub fn pick_intra_l0(ctx: &Situation<'_>) -> Option<Plan> {
    let Situation { version, busy, limits, .. } = ctx;
    let min_runs = usize::try_from(limits.intra_l0_compaction_trigger).ok().filter(|min_runs| *min_runs > 0)?;
    let is_free = |table: &&Arc<TableRef>| !busy.has(table.meta.id) && busy.damage_of(table.meta.id).is_none();
    let newest =
        |table: &&Arc<TableRef>| is_free(table) && ctx.reserved_numbers.contains(&reserved_above(table.meta.id));
    let mut upper: Vec<Arc<TableRef>> = Vec::new();
    for table in version.levels[0].tables().skip_while(|table| !newest(table)).take_while(is_free) {
        let (runs, bytes_so_far) = (upper.len() as u64, bytes(&upper));
        // An intra-L0 compaction of k runs into one removes k − 1 runs. A large run among small
        // ones raises the bytes per removed run, because the compaction copies the large run.
        let bytes_with = bytes_so_far.saturating_add(table.meta.bytes);
        let costs_more_per_run =
            runs >= 2 && u128::from(bytes_with) * u128::from(runs - 1) > u128::from(bytes_so_far) * u128::from(runs);
        if costs_more_per_run || bytes_with > limits.expanded_bytes().min(ctx.room) {
            break;
        }
        upper.push(table.clone());
    }
    (upper.len() >= min_runs.max(2)).then(|| Plan {
        family: ctx.family,
        level: 0,
        output_level: 0,
        number: Some(reserved_above(upper[0].meta.id)),
        upper,
        lower: Vec::new(),
        between: Vec::new(),
        output_run: 0, // unused: the table number orders runs of level 0
        own_run: true,
        grandparents: Vec::new(),
        pointer: Vec::new(),
        version: ctx.copied(),
        trivial_move: false,
        gc_only: false,
    })
}

/// Returns a compaction of only the oldest runs of `plan` if `plan` is a compaction of level 0 for
/// which the disk has too little space. Its outputs need about as much space as its inputs, which
/// stay on the disk until the end. The returned compaction takes as many runs as fit, at least one.
pub fn runs_that_fit(ctx: &Situation<'_>, plan: Plan) -> Plan {
    if plan.level > 0 || plan.upper.len() < 2 || plan.bytes() <= ctx.room {
        return plan;
    }
    let mut oldest_first = plan.upper.clone();
    oldest_first.sort_by_key(|table| table.meta.id);
    let mut sum = bytes(&plan.lower);
    let fits = |table: &&Arc<TableRef>| {
        sum = sum.saturating_add(table.meta.bytes);
        sum <= ctx.room
    };
    let count = oldest_first.iter().take_while(fits).count().max(1);
    oldest_first.truncate(count);
    expand_inputs(ctx, 0, oldest_first, true)
}

/// Removes from `plan` all runs of level 0 that are not older than every run that is being
/// compacted. If the plan keeps a run, it also keeps every older run that overlaps it. Returns
/// `None` if no run is left, or if none of the plan's runs is being compacted.
pub fn older_runs_only(ctx: &Situation<'_>, plan: &Plan) -> Option<Plan> {
    let busy = |table: &&Arc<TableRef>| ctx.busy.has(table.meta.id);
    let oldest_busy = plan.upper.iter().filter(busy).map(|table| table.meta.id).min().filter(|_| plan.level == 0)?;
    let older: Vec<_> = plan.upper.iter().filter(|table| table.meta.id < oldest_busy).cloned().collect();
    (!older.is_empty()).then(|| expand_inputs(ctx, 0, older, true))
}
