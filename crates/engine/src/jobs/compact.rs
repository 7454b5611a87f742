//! Carries a plan out: merges its inputs, leaves out what nobody can see, installs the outputs.
use crate::{
    Event, Options, Result,
    bounds::Bounds,
    compact::{plan::Plan, split},
    jobs::{
        output::{Output, no_room},
        release,
        sieve::{Part, Sieve},
    },
    read::{
        merge::Merge,
        run::RunCursor,
        source::{Source, Sources},
        view::View,
    },
    state::Shared,
    version::{TableRef, Tables, add_to},
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{KeyOrder, Kind, SeqNo, edit::Edit, key};
use terrace_storage::{
    Ticket,
    placement::{Hint, Lifetime, ObjectId, ReadHow, Stored, TableMeta},
};

/// How many entries pass between two looks at whether the store is closing.
const ENTRIES_PER_LOOK: u64 = 4096;

/// Runs `plan` and installs its result.
pub fn run(shared: &Arc<Shared>, plan: &Plan) -> Result<()> {
    let started = shared.clock.now();
    let (level, output_level) = (plan.level, plan.output_level);
    shared.options.tell(|| {
        let (tables, bytes) = (plan.inputs().count(), plan.bytes());
        Event::CompactionBegun { level, output_level, tables, bytes }
    });
    let (outputs, tickets) = if plan.trivial_move {
        (plan.upper.iter().map(|table| table.meta.clone()).collect(), Vec::new())
    } else {
        let_go_first(shared);
        if plan.only_collects && plan.output_level > plan.level && !shared.has_room(plan.bytes()) {
            return Err(no_room(shared));
        }
        match merge_in_parts(shared, plan)? {
            Some(merged) => merged,
            None => return Ok(()), // the store is closing; nothing was promised
        }
    };
    let written = if plan.trivial_move { 0 } else { outputs.iter().map(|meta| meta.bytes).sum() };
    let read = if plan.trivial_move { 0 } else { plan.bytes() };
    shared.stats.compacted(plan.output_level, read, written, shared.clock.since(started));

    let mut edit = Edit::default();
    if plan.output_level > plan.level {
        edit.compact_pointers.push((plan.level, plan.pointer.clone()));
    }
    edit.deleted.extend(plan.inputs().map(|(level, table)| (level, table.meta.id)));
    outputs.iter().for_each(|meta| add_to(&mut edit, plan.output_level, meta));
    install(shared, plan, edit, &outputs, tickets)?;
    let (tables, bytes) = (outputs.len(), written);
    let time = shared.clock.since(started);
    shared.options.tell(|| Event::CompactionEnded { level, output_level, tables, bytes, time });
    Ok(())
}

/// What a merge replaces is retained, beside what is retained already: on a disk that is nearly full the latter goes first, lest merges
/// outrun releases.
fn let_go_first(shared: &Arc<Shared>) {
    let (free, retained) = (shared.free_bytes(), shared.control.lock().versions.retained_bytes());
    if Bounds::of(&shared.options, free, shared.debt().1, retained).crowds_merges(retained) {
        let _ = release::now(shared); // the job that releases fails likewise, and tells of it
    }
}

/// Makes `outputs` part of the version, in the place of the plan's inputs. Those of the inputs that nobody has begun to make durable go at once.
fn install(shared: &Arc<Shared>, plan: &Plan, edit: Edit, outputs: &[TableMeta], tickets: Vec<Ticket>) -> Result<()> {
    let mut control = shared.control.lock();
    control.busy.end(plan);
    control.collecting.refused.retain(|refused| plan.inputs().all(|(_, table)| table.meta.id != *refused));
    shared.spare(&mut control, shared.placement.unmoved());
    if !plan.trivial_move {
        control.busy.lull.merge_ended(shared.visible().0);
    }
    if shared.values_apart {
        control.collecting.found.merged(plan, outputs, &shared.limits());
    }
    let copied = Arc::strong_count(&control.copies) > 1;
    let mut given_up = Vec::new();
    let linked = outputs.iter().map(|meta| meta.linked_bytes).sum();
    let version = control.versions.install_compaction(edit, tickets, linked, |meta| {
        let file = if copied { None } else { shared.placement.give_up(meta) };
        let is_given_up = file.is_some();
        given_up.extend(file);
        is_given_up
    })?;
    shared.set_view(&control, |view| View { mem: view.mem.clone(), sealed: view.sealed.clone(), version });
    shared.schedule(&mut control);
    let removable = if given_up.is_empty() { Vec::new() } else { control.versions.removable() };
    drop(control);
    shared.stats.given_up(given_up.len());
    drop(given_up); // which closes files
    release::give_back(shared, &removable);
    Ok(())
}

/// Whether carrying `plan` out would leave something out. Reads its inputs as far as the first such entry.
///
/// # Errors
/// An input that cannot be read; a store that has stopped or is closed meanwhile.
pub fn drops_some(shared: &Arc<Shared>, plan: &Plan) -> Result<bool> {
    let oldest_reader = shared.snapshots.oldest(|| shared.visible());
    let mut sieve = Sieve::new(shared, plan, &Part::default(), oldest_reader)?;
    if sieve.kept_ranges() != sieve.ranges.fragments() {
        return Ok(true);
    }
    let mut merge = input(shared, plan);
    merge.seek_first()?;
    let mut entries = 0u64;
    while merge.valid() {
        entries += 1;
        if entries.is_multiple_of(ENTRIES_PER_LOOK) {
            shared.check_writable(&shared.control.lock())?;
        }
        if sieve.drops(&key::apart(merge.entry().key)) {
            return Ok(true);
        }
        merge.next()?;
    }
    Ok(false)
}

/// Merges the inputs into new tables; `None` if the store began to close meanwhile. A large merge is cut into ranges of
/// keys that are merged at the same time; all of it ends in one edit.
fn merge_in_parts(shared: &Arc<Shared>, plan: &Plan) -> Result<Option<(Vec<TableMeta>, Vec<Ticket>)>> {
    let oldest_reader = shared.snapshots.oldest(|| shared.visible());
    let spent = {
        let control = shared.control.lock();
        control.collecting.spent(oldest_reader, control.versions.base())
    };
    let parts = parts(shared, plan)?;
    let share = plan.bytes() / parts.len() as u64;
    let spent = &spent;
    let jobs = parts.iter().map(|part| move || merge(shared, plan, part, share, oldest_reader, spent)).collect();
    let (mut outputs, mut tickets, mut unmerged) = (Vec::new(), Vec::new(), None);
    for merged in shared.work.together(jobs) {
        match merged {
            Ok(Some((metas, ticket))) => {
                outputs.extend(metas);
                tickets.push(ticket);
            }
            other => unmerged = unmerged.or(Some(other.map(|_| None))),
        }
    }
    let Some(unmerged) = unmerged else { return Ok(Some((outputs, tickets))) };
    release::remove_made(shared, &outputs); // what a part has finished, no other part gives up
    unmerged
}

/// Where the merge is cut: nowhere if it is small, or may yield only one table.
fn parts(shared: &Shared, plan: &Plan) -> Result<Vec<Part>> {
    let Options { subcompactions_max, subcompaction_bytes, .. } = shared.options;
    let most = shared.compaction_threads(&shared.control.lock(), subcompactions_max);
    let count = split::parts(plan.bytes(), subcompaction_bytes, most);
    if count < 2 || plan.number.is_some() {
        return Ok(vec![Part::default()]);
    }
    let mut anchors = Vec::new();
    for (_, table) in plan.inputs() {
        anchors.extend(shared.placement.open_table(&table.meta)?.anchors(split::anchors_per_table(count))?);
    }
    let (mut parts, mut from) = (Vec::new(), None);
    for cut in split::cuts(&shared.order, anchors, count) {
        parts.push(Part { from, to: Some(cut.clone()) });
        from = Some(cut);
    }
    parts.push(Part { from, to: None });
    Ok(parts)
}

/// Merges one part, without what leads into a segment that is `spent`; `None` if the store began to close meanwhile.
fn merge(
    shared: &Arc<Shared>,
    plan: &Plan,
    part: &Part,
    expected_bytes: u64,
    oldest_reader: SeqNo,
    spent: &BTreeSet<ObjectId>,
) -> Result<Option<(Vec<TableMeta>, Ticket)>> {
    let mut merge = input(shared, plan);
    let mut sieve = Sieve::new(shared, plan, part, oldest_reader)?;
    let hint = Hint { level: plan.output_level, expected_bytes, lifetime: Lifetime::Compaction };
    let mut out = Output::new(shared, plan, shared.placement.begin(hint)?, sieve.kept_ranges());
    match &part.from {
        Some(user) => merge.seek(&key::lookup(user, SeqNo::MAX))?,
        None => merge.seek_first()?,
    }
    let wholes = shared.options.whole_blocks && spent.is_empty();
    let mut entries = 0;
    while merge.valid() {
        if entries >= ENTRIES_PER_LOOK {
            entries = 0;
            if shared.work.stopping() {
                return Ok(None);
            }
        }
        if wholes && merge.comes_to_block() {
            let kept = match merge.whole_block()? {
                Some(block) => out.keep_block(&block, &mut sieve, part)?,
                None => 0,
            };
            if kept > 0 {
                entries += kept;
                merge.skip_block()?;
                continue;
            }
        }
        entries += 1;
        let entry = merge.entry();
        let parsed = key::apart(entry.key);
        if part.to.as_ref().is_some_and(|to| shared.order.user(parsed.user, to).is_ge()) {
            break;
        }
        out.pass(entry.key);
        if !sieve.drops(&parsed) && !leads_into(spent, parsed.kind, entry.stored) {
            out.keep(entry, sieve.rule.begins_key())?;
        }
        merge.next()?;
    }
    out.finish().map(Some)
}

/// Whether what is `stored` for an entry is a pointer into one of `segments`.
fn leads_into(segments: &BTreeSet<ObjectId>, kind: Kind, stored: &[u8]) -> bool {
    !segments.is_empty()
        && kind == Kind::Put
        && matches!(Stored::parse(stored), Ok(Stored::At(pointer)) if segments.contains(&ObjectId::from(&pointer)))
}

/// The plan's inputs as one. Every run of the upper level is a source of its own; the lower inputs are one run.
fn input(shared: &Arc<Shared>, plan: &Plan) -> Merge {
    let how = ReadHow { verify: true, fill_cache: false }; // damage must not get a fresh checksum
    let source = |tables: Vec<Arc<TableRef>>| {
        let run = Arc::new(Tables::new(&shared.order, tables));
        Source::Run(RunCursor::new(shared.placement.clone(), shared.order.clone(), run, how))
    };
    let mut sources = Sources::new();
    if plan.level == 0 {
        sources.extend(plan.upper.iter().map(|table| source(vec![table.clone()])));
    } else {
        sources.push(source(in_order(&shared.order, &plan.upper)));
    }
    sources.push(source(in_order(&shared.order, &plan.lower)));
    Merge::new(shared.order.clone(), sources)
}

fn in_order(order: &KeyOrder, tables: &[Arc<TableRef>]) -> Vec<Arc<TableRef>> {
    let mut tables = tables.to_vec();
    tables.sort_by(|a, b| order.internal(&a.meta.smallest, &b.meta.smallest));
    tables
}
