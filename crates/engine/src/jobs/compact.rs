//! Carries a plan out: merges its inputs, leaves out what nobody can see, installs the outputs.
use crate::{
    Event, Options, Result,
    bounds::Bounds,
    compact::{may_drop::Readers, plan::Plan, split},
    jobs::{
        commit_edits,
        drop_filter::{DropFilter, Subcompaction, readers},
        output::{FinishedOutputs, OutputBuilder, no_room},
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
struct StopPoll(u64);

impl StopPoll {
    /// Counts `entries` of together `bytes`.
    fn add(&mut self, entries: u64, bytes: u64) {
        self.0 = self.0.saturating_add(bytes).saturating_add(entries * BYTES_PER_ENTRY);
    }

    /// Counts an entry with what is `stored` for its value; one that lies in a log as well, as it may be moved.
    fn add_entry(&mut self, shared: &DbInner, stored: &[u8]) {
        let value = if shared.separates_values
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
    let CompactionOutput { outputs, contents, handles } = if plan.trivial_move {
        CompactionOutput {
            outputs: plan.upper.iter().map(|table| table.meta.clone()).collect(),
            ..CompactionOutput::default()
        }
    } else {
        commit_edits_if_crowded(shared);
        if plan.only_collects && plan.output_level > plan.level && !shared.has_room(plan.bytes()) {
            return Err(no_room(shared));
        }
        match run_subcompactions(shared, plan)? {
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
    install(shared, plan, edit, CompactionOutput { outputs, contents, handles })?;
    let time = shared.clock.since(started);
    shared.options.tell(|| Event::CompactionEnded { level, output_level, tables, bytes, time });
    Ok(())
}

/// What a merge replaces is retained, beside what is retained already: on a disk that is nearly full the latter goes first, lest merges
/// outrun releases.
fn commit_edits_if_crowded(shared: &Arc<DbInner>) {
    let (free, retained) = (shared.free_bytes(), shared.state.lock().versions.retained_bytes());
    if Bounds::of(&shared.options, free, shared.compaction_debt().1, retained).crowds_merges(retained) {
        let _ = commit_edits::run_now(shared); // the job that releases fails likewise, and tells of it
    }
}

/// Makes `outputs` part of the version, in the place of the plan's inputs. Those of the inputs that nobody has begun to make durable go at once.
fn install(shared: &Arc<DbInner>, plan: &Plan, edit: Edit, merged: CompactionOutput) -> Result<()> {
    let CompactionOutput { outputs, contents, handles } = merged;
    let mut state = shared.state.lock();
    state.compactions.end(plan);
    state.gc.refused.retain(|refused| plan.inputs().all(|(_, table)| table.meta.id != *refused));
    shared.quarantine(&mut state, shared.storage.unmoved());
    if !plan.trivial_move {
        state.compactions.lull.merge_ended(shared.visible().0);
    }
    state.gc.found.merged(plan, &outputs, &shared.limits());
    let copied = Arc::strong_count(&state.checkpoints) > 1;
    let mut given_up = Vec::new();
    let linked = outputs.iter().map(|meta| meta.linked_bytes).sum();
    let version = state.versions.install_compaction(edit, handles, linked, |meta| {
        let file = if copied { None } else { shared.storage.give_up(meta) };
        let is_given_up = file.is_some();
        given_up.extend(file);
        is_given_up
    })?;
    version.learn(plan.output_level, contents);
    shared.set_view(&state, |view| View { mem: view.mem.clone(), sealed: view.sealed.clone(), version });
    shared.schedule(&mut state);
    let removable = if given_up.is_empty() { Vec::new() } else { state.versions.removable() };
    drop(state);
    shared.stats.given_up(given_up.len());
    drop(given_up); // which closes files
    commit_edits::delete_obsolete(shared, &removable);
    Ok(())
}

/// Whether carrying `plan` out would leave something out. Reads its inputs as far as the first such entry.
///
/// # Errors
/// An input that cannot be read; a store that has stopped or is closed meanwhile.
pub fn drops_some(shared: &Arc<DbInner>, plan: &Plan) -> Result<bool> {
    let readers = readers(shared);
    let mut drop_filter = DropFilter::new(shared, plan, &Subcompaction::default(), &readers)?;
    if drop_filter.kept_range_tombstones() != drop_filter.ranges.fragments() {
        return Ok(true);
    }
    let mut merge = input(shared, plan);
    merge.seek_first()?;
    let mut stop_poll = StopPoll::default();
    while merge.valid() {
        stop_poll.add_entry(shared, merge.entry().stored);
        if stop_poll.is_due() {
            shared.check_writable(&shared.state.lock())?;
        }
        if drop_filter.drops(&key::apart(merge.entry().key)) {
            return Ok(true);
        }
        merge.next()?;
    }
    Ok(false)
}

/// What a plan comes to.
#[derive(Default)]
struct CompactionOutput {
    outputs: Vec<TableMeta>,
    /// What they hold, if they are new.
    contents: Vec<(TableId, Contents)>,
    handles: Vec<DurabilityHandle>,
}

/// Merges the inputs into new tables; `None` if the store began to close meanwhile. A large merge is cut into ranges of
/// keys that are merged at the same time; all of it ends in one edit.
fn run_subcompactions(shared: &Arc<DbInner>, plan: &Plan) -> Result<Option<CompactionOutput>> {
    let readers = &readers(shared);
    let spent = {
        let state = shared.state.lock();
        state.gc.spent(readers.oldest(), state.versions.base())
    };
    let subs = split_plan(shared, plan)?;
    let share = plan.bytes() / subs.len() as u64;
    let spent = &spent;
    let jobs = subs.iter().map(|sub| move || run_subcompaction(shared, plan, sub, share, readers, spent)).collect();
    let (mut all, mut unmerged) = (CompactionOutput::default(), None);
    for merged in shared.work.run_parallel(jobs) {
        match merged {
            Ok(Some(FinishedOutputs { metas, contents, handle })) => {
                all.outputs.extend(metas);
                all.contents.extend(contents);
                all.handles.push(handle);
            }
            other => unmerged = unmerged.or(Some(other.map(|_| None))),
        }
    }
    let Some(unmerged) = unmerged else { return Ok(Some(all)) };
    commit_edits::delete_outputs(shared, &all.outputs); // what a part has finished, no other part gives up
    unmerged
}

/// Where the merge is cut: nowhere if it is small, or may yield only one table.
fn split_plan(shared: &DbInner, plan: &Plan) -> Result<Vec<Subcompaction>> {
    let Options { max_subcompactions, min_subcompaction_size, .. } = shared.options;
    let most = shared.compaction_threads(&shared.state.lock(), max_subcompactions);
    let count = split::parts(plan.bytes(), min_subcompaction_size, most);
    if count < 2 || plan.number.is_some() {
        return Ok(vec![Subcompaction::default()]);
    }
    let mut anchors = Vec::new();
    for (_, table) in plan.inputs() {
        anchors.extend(shared.storage.open_table(&table.meta)?.anchors(split::anchors_per_table(count))?);
    }
    let (mut subs, mut from) = (Vec::new(), None);
    for cut in split::cuts(&shared.order, anchors, count) {
        subs.push(Subcompaction { from, to: Some(cut.clone()) });
        from = Some(cut);
    }
    subs.push(Subcompaction { from, to: None });
    Ok(subs)
}

/// Merges one part, without what leads into a segment that is `spent`; `None` if the store began to close meanwhile.
fn run_subcompaction(
    shared: &Arc<DbInner>,
    plan: &Plan,
    sub: &Subcompaction,
    expected_bytes: u64,
    readers: &Readers,
    spent: &BTreeSet<ObjectId>,
) -> Result<Option<FinishedOutputs>> {
    let mut merge = input(shared, plan);
    let mut drop_filter = DropFilter::new(shared, plan, sub, readers)?;
    let hint = Hint { level: plan.output_level, expected_bytes, lifetime: Lifetime::Compaction };
    let mut out = OutputBuilder::new(shared, plan, shared.storage.begin(hint)?, drop_filter.kept_range_tombstones());
    match &sub.from {
        Some(user) => merge.seek(&key::lookup(user, SeqNo::MAX))?,
        None => merge.seek_first()?,
    }
    let copy_blocks = shared.options.copy_whole_blocks && spent.is_empty();
    let mut stop_poll = StopPoll::default();
    while merge.valid() {
        if stop_poll.is_due() && shared.work.stopping() {
            return Ok(None);
        }
        if copy_blocks && merge.comes_to_block() {
            let (kept, bytes) = match merge.whole_block()? {
                Some(block) => (out.keep_block(&block, &mut drop_filter, sub)?, block.sealed.len() as u64),
                None => (0, 0),
            };
            if kept > 0 {
                stop_poll.add(kept, bytes);
                merge.skip_block()?;
                continue;
            }
        }
        let entry = merge.entry();
        stop_poll.add_entry(shared, entry.stored);
        let parsed = key::apart(entry.key);
        if sub.to.as_ref().is_some_and(|to| shared.order.user(parsed.user, to).is_ge()) {
            break;
        }
        out.advance(entry.key);
        if !drop_filter.drops(&parsed) && !points_into(spent, parsed.kind, entry.stored) {
            out.keep(entry, drop_filter.rule.begins_key())?;
        }
        merge.next()?;
    }
    out.finish().map(Some)
}

/// Whether what is `stored` for an entry is a pointer into one of `segments`.
fn points_into(segments: &BTreeSet<ObjectId>, kind: Kind, stored: &[u8]) -> bool {
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
        sources.push(source(sorted_by_key(&shared.order, &plan.upper)));
    }
    sources.push(source(sorted_by_key(&shared.order, &plan.lower)));
    Merge::new(shared.order.clone(), sources)
}

fn sorted_by_key(order: &KeyOrder, tables: &[Arc<TableRef>]) -> Vec<Arc<TableRef>> {
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
            let mut stop_poll = StopPoll::default();
            let entries = (1..10_000).find(|_| {
                stop_poll.add(1, bytes);
                stop_poll.is_due()
            });
            assert!(!stop_poll.is_due(), "it counts from the beginning");
            entries.expect("a look")
        };
        assert_eq!([0, 1 << 10, 1 << 20, 1 << 30].map(between), [4096, 2048, 4, 1]);
    }
}
