//! The compaction job: it merges the inputs of a plan, drops entries that no reader can see, and
//! installs the outputs.
use crate::{
    Event, Options, Result,
    bounds::BacklogBounds,
    compact::{drop_rule::SnapshotStripes, plan::Plan, split},
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
    version::{Contents, TableRef, Tables, add_to, run_number},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use terrace_format::{Kind, SeqNo, TableId, edit::Edit, key};
use terrace_storage::{
    DurabilityHandle,
    placement::{Hint, Lifetime, ObjectId, StoredValue, TableMeta, TableReadOptions},
};

/// Number of bytes of entries that a compaction processes between two checks of the stop flag.
const BYTES_PER_LOOK: u64 = 4 << 20;
/// Number of bytes that each entry adds to the progress in addition to its size, so that a
/// compaction of many small entries checks the stop flag too.
const BYTES_PER_ENTRY: u64 = 1 << 10;

/// Measures how much a compaction has processed since its last check of the stop flag (whether the
/// store is closing or has failed). A check at each small entry would be too frequent, and a check
/// after gigabytes too rare.
#[derive(Default)]
struct StopPoll(u64);

impl StopPoll {
    /// Adds `entries` entries with `bytes` bytes in total to the progress.
    fn add(&mut self, entries: u64, bytes: u64) {
        self.0 = self.0.saturating_add(bytes).saturating_add(entries * BYTES_PER_ENTRY);
    }

    /// Adds one entry and its value to the progress. The bytes of a separated value count too,
    /// because the compaction may relocate the value.
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

    /// Returns whether a check of the stop flag is due. If so, restarts the measurement.
    fn is_due(&mut self) -> bool {
        let is_due = self.0 >= BYTES_PER_LOOK;
        if is_due {
            self.0 = 0;
        }
        is_due
    }
}

/// Executes `plan` and installs its result.
pub fn run(shared: &Arc<DbInner>, plan: &Plan) -> Result<()> {
    let started = shared.clock.now();
    let (level, output_level) = (plan.level, plan.output_level);
    shared.options.notify(|| {
        let (tables, bytes) = (plan.inputs().count(), plan.bytes());
        Event::CompactionBegin { level, output_level, tables, bytes }
    });
    let CompactionOutput { outputs, contents, handles } = if plan.trivial_move {
        CompactionOutput {
            outputs: plan.upper.iter().map(|table| TableMeta { run: plan.output_run, ..table.meta.clone() }).collect(),
            ..CompactionOutput::default()
        }
    } else {
        commit_edits_if_crowded(shared);
        if plan.gc_only && plan.output_level > plan.level && !shared.has_room(plan.bytes()) {
            return Err(no_room(shared));
        }
        match run_subcompactions(shared, plan)? {
            Some(merged) => merged,
            None => return Ok(()), // the store is closing; the inputs stay
        }
    };
    let written = if plan.trivial_move { 0 } else { outputs.iter().map(|meta| meta.bytes).sum() };
    let read = if plan.trivial_move { 0 } else { plan.bytes() };
    shared.stats.compacted(plan.output_level, read, written, shared.clock.since(started));

    let mut edit = Edit::default();
    if plan.output_level > plan.level {
        edit.compact_pointers.push((plan.family.level(plan.level), plan.pointer.clone()));
    }
    edit.deleted.extend(plan.inputs().map(|(level, table)| (plan.family.level(level), table.meta.id)));
    outputs.iter().for_each(|meta| add_to(&mut edit, plan.family.level(plan.output_level), meta));
    let (tables, bytes) = (outputs.len(), written);
    install(shared, plan, edit, CompactionOutput { outputs, contents, handles })?;
    let time = shared.clock.since(started);
    shared.options.notify(|| Event::CompactionEnd { level, output_level, tables, bytes, time });
    Ok(())
}

/// If the disk is nearly full, commits pending edits before the compaction starts. The reason: the
/// inputs of a compaction stay on disk until its outputs are durable, in addition to the files
/// that are retained already. Without this commit, compactions could take space faster than
/// commits free it.
fn commit_edits_if_crowded(shared: &Arc<DbInner>) {
    let (free, retained) = (shared.free_bytes(), shared.state.lock().versions.retained_bytes());
    if BacklogBounds::of(&shared.options, free, shared.compaction_debt().1, retained).delays_compactions(retained) {
        // An error of the commit is ignored here, because the commit job will get the same error
        // and report it.
        let _ = commit_edits::run_now(shared);
    }
}

/// Replaces the inputs of `plan` by the outputs in the live version. If no sync of an input's file
/// has started yet, the file never has to be durable: its sync is cancelled, and the file is
/// deleted immediately.
fn install(shared: &Arc<DbInner>, plan: &Plan, edit: Edit, merged: CompactionOutput) -> Result<()> {
    let CompactionOutput { outputs, contents, handles } = merged;
    let mut state = shared.state.lock();
    state.compactions.end(plan);
    state.gc.refused.retain(|refused| plan.inputs().all(|(_, table)| table.meta.id != *refused));
    shared.quarantine(&mut state, shared.storage.unrelocated_victims());
    if !plan.trivial_move {
        state.compactions.idle.compaction_ended(shared.visible().0);
    }
    state.gc.shadow_stats.record_compaction(plan, &outputs, &shared.limits());
    let copied = Arc::strong_count(&state.checkpoints) > 1;
    let mut given_up = Vec::new();
    let linked = outputs.iter().map(|meta| meta.linked_bytes).sum();
    let version = state.versions.install_compaction(edit, handles, linked, |meta| {
        let file = if copied { None } else { shared.storage.cancel_sync(meta) };
        let is_given_up = file.is_some();
        given_up.extend(file);
        is_given_up
    })?;
    let tree = version.tree(plan.family).expect("a compaction ends before its column family is dropped");
    tree.set_contents(plan.output_level, contents);
    shared.set_view(&state, |view| View { version, ..view.clone() });
    shared.schedule(&mut state);
    let removable = if given_up.is_empty() { Vec::new() } else { state.versions.removable() };
    drop(state);
    shared.stats.given_up(given_up.len());
    drop(given_up); // this closes files
    commit_edits::delete_obsolete(shared, &removable);
    Ok(())
}

/// Returns whether the compaction of `plan` would drop any entry. It reads the inputs up to the
/// first entry that the compaction would drop.
///
/// # Errors
/// An input cannot be read, or the store fails or is closed during the call.
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

/// The result of a compaction.
#[derive(Default)]
struct CompactionOutput {
    outputs: Vec<TableMeta>,
    /// The entry counts of the outputs. A trivial move adds no entry counts, because its outputs
    /// are its inputs.
    contents: Vec<(TableId, Contents)>,
    handles: Vec<DurabilityHandle>,
}

/// Merges the inputs into new SSTables. Returns `None` if the store began to close during the
/// merge. A large compaction is split by key range into subcompactions, which run in parallel. One
/// edit then installs the outputs of all of them.
fn run_subcompactions(shared: &Arc<DbInner>, plan: &Plan) -> Result<Option<CompactionOutput>> {
    let readers = &readers(shared);
    let spent = {
        let state = shared.state.lock();
        state.gc.obsolete_victims(readers.oldest(), state.versions.base())
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
    // One subcompaction did not finish. The outputs of the finished ones must be deleted here,
    // because no other code knows them.
    commit_edits::delete_outputs(shared, &all.outputs);
    unmerged
}

/// Splits a plan into subcompactions by key range. A small plan, or a plan with exactly one output
/// table, is not split.
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

/// Executes one subcompaction. Drops value pointers into the segments `spent`, which tail GC has
/// emptied. Returns `None` if the store began to close during the merge.
fn run_subcompaction(
    shared: &Arc<DbInner>,
    plan: &Plan,
    sub: &Subcompaction,
    expected_bytes: u64,
    readers: &SnapshotStripes,
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

/// Returns whether the `stored` value of a put is a pointer into one of `segments`.
fn points_into(segments: &BTreeSet<ObjectId>, kind: Kind, stored: &[u8]) -> bool {
    !segments.is_empty()
        && kind == Kind::Put
        && matches!(StoredValue::parse(stored), Ok(StoredValue::At(pointer)) if segments.contains(&ObjectId::from(&pointer)))
}

/// Returns the plan's inputs as one sorted stream, with the newest run first.
fn input(shared: &Arc<DbInner>, plan: &Plan) -> Merge {
    // The compaction verifies the checksums of its inputs. Otherwise the bytes of a damaged block
    // would get a valid checksum in an output.
    let how = TableReadOptions { verify: true, fill_cache: false };
    let source = |tables: Vec<Arc<TableRef>>| {
        let run = Arc::new(Tables::new(&shared.order, tables));
        Source::Run(RunCursor::new(shared.storage.clone(), shared.order.clone(), run, how))
    };
    let mut sources = Sources::new();
    let mut runs = BTreeMap::<_, Vec<Arc<TableRef>>>::new();
    for (level, table) in plan.inputs() {
        runs.entry((level, Reverse(run_number(level, table)))).or_default().push(table.clone());
    }
    for mut tables in runs.into_values() {
        tables.sort_by(|a, b| shared.order.internal(&a.meta.smallest, &b.meta.smallest));
        sources.push(source(tables));
    }
    Merge::new(shared.order.clone(), sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_flag_is_checked_every_few_megabytes_for_any_entry_size() {
        let between = |bytes: u64| {
            let mut stop_poll = StopPoll::default();
            let entries = (1..10_000).find(|_| {
                stop_poll.add(1, bytes);
                stop_poll.is_due()
            });
            assert!(!stop_poll.is_due(), "the count restarts");
            entries.expect("a check")
        };
        assert_eq!([0, 1 << 10, 1 << 20, 1 << 30].map(between), [4096, 2048, 4, 1]);
    }
}
