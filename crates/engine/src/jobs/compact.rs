//! Carries a plan out: merges its inputs, leaves out what nobody can see, installs the outputs.
use crate::{
    Event, Options, Result,
    bounds::Bounds,
    compact::{may_drop::Readers, plan::Plan, split},
    jobs::{
        output::{Made, Output, no_room},
        release,
        sieve::{Part, Sieve, readers},
    },
    read::{
        merge::Merge,
        run::RunCursor,
        source::{Source, Sources},
        view::View,
    },
    state::DbInner,
    version::{Contents, TableRef, Tables, add_to},
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{KeyOrder, Kind, SeqNo, TableId, edit::Edit, key};
use terrace_storage::{
    DurabilityHandle,
    placement::{Hint, Lifetime, ObjectId, ReadHow, StoredValue, TableMeta},
};

/// Bytes of entries that pass between two looks at whether the store is closing, …
const BYTES_PER_LOOK: u64 = 4 << 20;
/// … where each entry counts as so many more.
const BYTES_PER_ENTRY: u64 = 1 << 10;

/// Counts what passes, to look at the stop flag now and then: neither at each small entry, nor gigabytes apart.
#[derive(Default)]
struct Passed(u64);

impl Passed {
    /// Counts `entries` of together `bytes`.
    fn add(&mut self, entries: u64, bytes: u64) {
        self.0 = self.0.saturating_add(bytes).saturating_add(entries * BYTES_PER_ENTRY);
    }

    /// Counts an entry with what is `stored` for its value; one that lies in a log as well, as it may be moved.
    fn add_entry(&mut self, shared: &DbInner, stored: &[u8]) {
        let value = if shared.values_apart
            && let Ok(StoredValue::At(pointer)) = StoredValue::parse(stored)
        {
            pointer.bytes
        } else {
            stored.len() as u64
        };
        self.add(1, value);
    }

    /// Whether it is time to look; then it counts from the beginning.
    fn is_due(&mut self) -> bool {
        let is_due = self.0 >= BYTES_PER_LOOK;
        if is_due {
            self.0 = 0;
        }
        is_due
    }
}

/// Runs `plan` and installs its result.
pub fn run(shared: &Arc<DbInner>, plan: &Plan) -> Result<()> {
    let started = shared.clock.now();
    let (level, output_level) = (plan.level, plan.output_level);
    shared.options.tell(|| {
        let (tables, bytes) = (plan.inputs().count(), plan.bytes());
        Event::CompactionBegun { level, output_level, tables, bytes }
    });
    let Merged { outputs, contents, tickets } = if plan.trivial_move {
        Merged { outputs: plan.upper.iter().map(|table| table.meta.clone()).collect(), ..Merged::default() }
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
    let (tables, bytes) = (outputs.len(), written);
    install(shared, plan, edit, Merged { outputs, contents, tickets })?;
    let time = shared.clock.since(started);
    shared.options.tell(|| Event::CompactionEnded { level, output_level, tables, bytes, time });
    Ok(())
}

/// What a merge replaces is retained, beside what is retained already: on a disk that is nearly full the latter goes first, lest merges
/// outrun releases.
fn let_go_first(shared: &Arc<DbInner>) {
    let (free, retained) = (shared.free_bytes(), shared.control.lock().versions.retained_bytes());
    if Bounds::of(&shared.options, free, shared.debt().1, retained).crowds_merges(retained) {
        let _ = release::now(shared); // the job that releases fails likewise, and tells of it
    }
}

/// Makes `outputs` part of the version, in the place of the plan's inputs. Those of the inputs that nobody has begun to make durable go at once.
fn install(shared: &Arc<DbInner>, plan: &Plan, edit: Edit, merged: Merged) -> Result<()> {
    let Merged { outputs, contents, tickets } = merged;
    let mut control = shared.control.lock();
    control.busy.end(plan);
    control.collecting.refused.retain(|refused| plan.inputs().all(|(_, table)| table.meta.id != *refused));
    shared.spare(&mut control, shared.storage.unmoved());
    if !plan.trivial_move {
        control.busy.lull.merge_ended(shared.visible().0);
    }
    control.collecting.found.merged(plan, &outputs, &shared.limits());
    let copied = Arc::strong_count(&control.copies) > 1;
    let mut given_up = Vec::new();
    let linked = outputs.iter().map(|meta| meta.linked_bytes).sum();
    let version = control.versions.install_compaction(edit, tickets, linked, |meta| {
        let file = if copied { None } else { shared.storage.give_up(meta) };
        let is_given_up = file.is_some();
        given_up.extend(file);
        is_given_up
    })?;
    version.learn(plan.output_level, contents);
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
pub fn drops_some(shared: &Arc<DbInner>, plan: &Plan) -> Result<bool> {
    let readers = readers(shared);
    let mut sieve = Sieve::new(shared, plan, &Part::default(), &readers)?;
    if sieve.kept_ranges() != sieve.ranges.fragments() {
        return Ok(true);
    }
    let mut merge = input(shared, plan);
    merge.seek_first()?;
    let mut passed = Passed::default();
    while merge.valid() {
        passed.add_entry(shared, merge.entry().stored);
        if passed.is_due() {
            shared.check_writable(&shared.control.lock())?;
        }
        if sieve.drops(&key::apart(merge.entry().key)) {
            return Ok(true);
        }
        merge.next()?;
    }
    Ok(false)
}

/// What a plan comes to.
#[derive(Default)]
struct Merged {
    outputs: Vec<TableMeta>,
    /// What they hold, if they are new.
    contents: Vec<(TableId, Contents)>,
    tickets: Vec<DurabilityHandle>,
}

/// Merges the inputs into new tables; `None` if the store began to close meanwhile. A large merge is cut into ranges of
/// keys that are merged at the same time; all of it ends in one edit.
fn merge_in_parts(shared: &Arc<DbInner>, plan: &Plan) -> Result<Option<Merged>> {
    let readers = &readers(shared);
    let spent = {
        let control = shared.control.lock();
        control.collecting.spent(readers.oldest(), control.versions.base())
    };
    let parts = parts(shared, plan)?;
    let share = plan.bytes() / parts.len() as u64;
    let spent = &spent;
    let jobs = parts.iter().map(|part| move || merge(shared, plan, part, share, readers, spent)).collect();
    let (mut all, mut unmerged) = (Merged::default(), None);
    for merged in shared.work.together(jobs) {
        match merged {
            Ok(Some(Made { metas, contents, ticket })) => {
                all.outputs.extend(metas);
                all.contents.extend(contents);
                all.tickets.push(ticket);
            }
            other => unmerged = unmerged.or(Some(other.map(|_| None))),
        }
    }
    let Some(unmerged) = unmerged else { return Ok(Some(all)) };
    release::remove_made(shared, &all.outputs); // what a part has finished, no other part gives up
    unmerged
}

/// Where the merge is cut: nowhere if it is small, or may yield only one table.
fn parts(shared: &DbInner, plan: &Plan) -> Result<Vec<Part>> {
    let Options { max_subcompactions, min_subcompaction_size, .. } = shared.options;
    let most = shared.compaction_threads(&shared.control.lock(), max_subcompactions);
    let count = split::parts(plan.bytes(), min_subcompaction_size, most);
    if count < 2 || plan.number.is_some() {
        return Ok(vec![Part::default()]);
    }
    let mut anchors = Vec::new();
    for (_, table) in plan.inputs() {
        anchors.extend(shared.storage.open_table(&table.meta)?.anchors(split::anchors_per_table(count))?);
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
    shared: &Arc<DbInner>,
    plan: &Plan,
    part: &Part,
    expected_bytes: u64,
    readers: &Readers,
    spent: &BTreeSet<ObjectId>,
) -> Result<Option<Made>> {
    let mut merge = input(shared, plan);
    let mut sieve = Sieve::new(shared, plan, part, readers)?;
    let hint = Hint { level: plan.output_level, expected_bytes, lifetime: Lifetime::Compaction };
    let mut out = Output::new(shared, plan, shared.storage.begin(hint)?, sieve.kept_ranges());
    match &part.from {
        Some(user) => merge.seek(&key::lookup(user, SeqNo::MAX))?,
        None => merge.seek_first()?,
    }
    let wholes = shared.options.copy_whole_blocks && spent.is_empty();
    let mut passed = Passed::default();
    while merge.valid() {
        if passed.is_due() && shared.work.stopping() {
            return Ok(None);
        }
        if wholes && merge.comes_to_block() {
            let (kept, bytes) = match merge.whole_block()? {
                Some(block) => (out.keep_block(&block, &mut sieve, part)?, block.sealed.len() as u64),
                None => (0, 0),
            };
            if kept > 0 {
                passed.add(kept, bytes);
                merge.skip_block()?;
                continue;
            }
        }
        let entry = merge.entry();
        passed.add_entry(shared, entry.stored);
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
        && matches!(StoredValue::parse(stored), Ok(StoredValue::At(pointer)) if segments.contains(&ObjectId::from(&pointer)))
}

/// The plan's inputs as one. Every run of the upper level is a source of its own; the lower inputs are one run.
fn input(shared: &Arc<DbInner>, plan: &Plan) -> Merge {
    let how = ReadHow { verify: true, fill_cache: false }; // damage must not get a fresh checksum
    let source = |tables: Vec<Arc<TableRef>>| {
        let run = Arc::new(Tables::new(&shared.order, tables));
        Source::Run(RunCursor::new(shared.storage.clone(), shared.order.clone(), run, how))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_comes_every_few_megabytes_however_large_entries_are() {
        let between = |bytes: u64| {
            let mut passed = Passed::default();
            let entries = (1..10_000).find(|_| {
                passed.add(1, bytes);
                passed.is_due()
            });
            assert!(!passed.is_due(), "it counts from the beginning");
            entries.expect("a look")
        };
        assert_eq!([0, 1 << 10, 1 << 20, 1 << 30].map(between), [4096, 2048, 4, 1]);
    }
}
