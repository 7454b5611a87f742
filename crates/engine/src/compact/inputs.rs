//! Selects the inputs of a compaction from one level into the next. Some inputs are necessary for
//! correct results. Further inputs are added if they make the compaction hardly more expensive.
use super::{
    gain::should_rewrite,
    plan::{Plan, span},
    situation::Situation,
};
use crate::version::{KeyRange, TableRef, run_number};
use std::sync::Arc;
use terrace_format::TableId;

/// Returns the compaction whose first input is the table `seed`. If other runs of the level have
/// tables that overlap `seed`, these tables become inputs too.
pub fn expand_table(ctx: &Situation<'_>, level: usize, seed: Arc<TableRef>) -> Plan {
    let together = level == 0 || has_several_runs(ctx, level);
    let upper = if together { overlapping(ctx, level, &seed.span()) } else { vec![seed] };
    expand_inputs(ctx, level, upper, true)
}

/// Makes the plan of a compaction of the tables `upper`. The function adds the inputs that are
/// necessary for correct results. It also adds further tables of `level`, as long as they require
/// no additional table of the next level. If `may_move` is set, the compaction may be a trivial
/// move.
pub fn expand_inputs(ctx: &Situation<'_>, level: usize, upper: Vec<Arc<TableRef>>, may_move: bool) -> Plan {
    let Situation { order, version, limits, .. } = ctx;
    let mut upper = with_boundaries(ctx, level, upper);
    let mut lower = lower_inputs(ctx, level + 1, &upper);
    if !lower.is_empty() {
        let (from, to) = span(order, upper.iter().chain(&lower)).expect("a plan has inputs");
        let wider = with_boundaries(ctx, level, overlapping(ctx, level, &KeyRange { from: Some(from), to: Some(to) }));
        let free = || !wider.iter().any(|table| ctx.busy.has(table.meta.id));
        let most = limits.expanded_bytes().min(ctx.room);
        if wider.len() > upper.len() && bytes(&wider).saturating_add(bytes(&lower)) < most && free() {
            let lower_for_wider = lower_inputs(ctx, level + 1, &wider);
            if lower_for_wider.len() == lower.len() {
                (upper, lower) = (wider, lower_for_wider);
            }
        }
    }
    let (from, to) = span(order, upper.iter().chain(&lower)).expect("a plan has inputs");
    let range = KeyRange { from: Some(from), to: Some(to) };
    let grandparents = version.levels.get(level + 2).map_or_else(Vec::new, |l| l.overlapping(order, &range));
    let trivial_move = may_move
        && upper.len() == 1
        && lower.is_empty()
        && bytes(&grandparents) <= limits.grandparent_bytes()
        && !should_rewrite(ctx, &upper[0], level + 1);
    let last = upper.iter().max_by(|a, b| order.internal(&a.meta.largest, &b.meta.largest)).expect("a plan has inputs");
    let pointer = last.meta.largest.clone();
    let version = ctx.copied();
    Plan {
        family: ctx.family,
        level,
        output_level: level + 1,
        upper,
        lower,
        between: Vec::new(),
        output_run: 0, // the inputs include all tables that overlap the outputs
        own_run: false,
        grandparents,
        pointer,
        version,
        trivial_move,
        number: None,
        gc_only: false,
    }
}

/// Returns the tables of `level` that overlap `range`. In level 0, and in a level with several
/// runs, tables overlap each other. In such a level the function extends the range until no
/// further table overlaps it.
pub fn overlapping(ctx: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Vec<Arc<TableRef>> {
    let tables = &ctx.version.levels[level];
    let mut found = tables.overlapping(ctx.order, range);
    if level > 0 && !has_several_runs(ctx, level) || found.is_empty() {
        return found;
    }
    loop {
        let (from, to) = span(ctx.order, found.iter()).expect("not empty");
        let wider = tables.overlapping(ctx.order, &KeyRange { from: Some(from), to: Some(to) });
        if wider.len() == found.len() {
            return found;
        }
        found = wider;
    }
}

/// Plans the rewrite in place of one table of `level`. This is the first table that has keys of
/// `range`, starts after the user key `after` if there is one, and has a file number below
/// `older`. All other tables of the level that share a user key with this table are inputs too.
pub fn rewrite_in_place(
    ctx: &Situation<'_>,
    level: usize,
    range: &KeyRange<'_>,
    after: Option<&[u8]>,
    older: TableId,
) -> Option<Plan> {
    let order = ctx.order;
    let remaining = KeyRange { from: after.or(range.from), to: range.to };
    let starts_after = |table: &TableRef| after.is_none_or(|after| order.user(table.smallest(), after).is_gt());
    let mut tables = ctx.version.levels[level].overlap_slices(order, &remaining).flatten();
    let table = tables.find(|table| table.meta.id < older && starts_after(table))?;
    Some(in_place(ctx, level, with_boundaries(ctx, level, vec![table.clone()])))
}

/// Returns the lower inputs of a compaction of `upper` into `level`: the tables of `level` that
/// overlap `upper`.
pub fn lower_inputs(ctx: &Situation<'_>, level: usize, upper: &[Arc<TableRef>]) -> Vec<Arc<TableRef>> {
    let (from, to) = span(ctx.order, upper.iter()).expect("a plan has inputs");
    with_boundaries(ctx, level, overlapping(ctx, level, &KeyRange { from: Some(from), to: Some(to) }))
}

/// Adds the tables of the level that share a boundary user key with `tables`. A store that LevelDB
/// wrote may have the versions of one user key in two neighbouring tables, the newer versions in
/// the first. If a compaction moved only the first table down, the older versions in the second
/// table would be in a level above the newer ones. Therefore a neighbour that starts with the last
/// user key of an input becomes an input too.
pub fn with_boundaries(ctx: &Situation<'_>, level: usize, mut tables: Vec<Arc<TableRef>>) -> Vec<Arc<TableRef>> {
    if level == 0 || tables.is_empty() {
        return tables;
    }
    let order = ctx.order;
    loop {
        let last = tables.iter().max_by(|a, b| order.internal(&a.meta.largest, &b.meta.largest)).expect("not empty");
        let same_run = |table: &Arc<TableRef>| run_number(level, table) == run_number(level, last);
        let runs = ctx.version.levels[level].runs.iter().filter(|run| run.first().is_some_and(same_run));
        let next = runs.into_iter().find_map(|run| {
            let at = run.partition_point(|table| order.internal(&table.meta.smallest, &last.meta.largest).is_le());
            run.get(at).filter(|table| order.user(table.smallest(), last.largest()).is_eq())
        });
        match next {
            Some(table) => tables.push(table.clone()),
            None => return tables,
        }
    }
}

/// Returns the bytes of `tables`.
pub fn bytes(tables: &[Arc<TableRef>]) -> u64 {
    sum_bytes(tables)
}

/// Returns the bytes of `tables`. A sum above `u64::MAX` becomes `u64::MAX`, because a damaged
/// manifest may declare any size.
pub fn sum_bytes<'a>(tables: impl IntoIterator<Item = &'a Arc<TableRef>>) -> u64 {
    tables.into_iter().map(|table| table.meta.bytes).fold(0, u64::saturating_add)
}

/// Makes the rewrite in place of `tables`, which are neighbours in one level. The caller ensures
/// that no table after the last one has an older version of the last key.
pub fn in_place(ctx: &Situation<'_>, level: usize, tables: Vec<Arc<TableRef>>) -> Plan {
    Plan {
        family: ctx.family,
        level,
        output_level: level,
        pointer: tables.last().expect("a plan has inputs").meta.largest.clone(),
        output_run: tables[0].meta.run,
        upper: tables,
        lower: Vec::new(),
        between: Vec::new(),
        own_run: false,
        grandparents: Vec::new(),
        version: ctx.copied(),
        trivial_move: false,
        number: None,
        gc_only: false,
    }
}

/// Returns whether a level below level 0 has several sorted runs. The universal policy leaves such
/// levels.
pub fn has_several_runs(ctx: &Situation<'_>, level: usize) -> bool {
    level > 0 && ctx.version.levels[level].runs.len() > 1
}
