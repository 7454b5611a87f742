//! Release: edits whose outputs have become durable enter the manifest, and what they replaced goes.
//!
//! Here the one rule of docs/durability.md is carried out: nothing is logged before its ticket is mature, nothing is
//! removed before its edit is durable. One release runs at a time.
use crate::{
    Error, Event, Result,
    bounds::Bounds,
    state::{DbInner, DbState},
    version::set::Manifest,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_format::{LogId, TableId};
use terrace_storage::{
    BlockingScope,
    placement::{ObjectId, TableMeta},
};

/// How long to wait before asking again for tickets that are not mature.
const POLL: Duration = Duration::from_millis(2);
/// The same where they take seconds to mature.
const JOURNAL_POLL: Duration = Duration::from_millis(20);
/// No table is about to be merged if none has been made for so long.
const QUIET_AFTER: Duration = Duration::from_millis(200);
/// A batch begins when so much is retained, or sooner.
const BATCH_BYTES_MAX: u64 = 512 << 20;
/// The same in memtables: whoever opens the store after a kill makes a run of level 0 of each.
const BATCH_MEMTABLES_MAX: u64 = 16;

/// Releases every mature edit at the front of the queue; queues itself again if some are left.
pub fn run(shared: &Arc<DbInner>) -> Result<()> {
    let released = commit_batch(shared)?;
    shared.wake_durable(); // under no lock: a waker may drop a store
    if released == 0 && !shared.work.is_manual() {
        thread::sleep(if shared.storage.is_patient() { JOURNAL_POLL } else { POLL });
    }
    let mut state = shared.state.lock();
    state.commit_scheduled = false;
    shared.schedule(&mut state);
    Ok(())
}

/// As [`run`], beside the job that is queued or runs: for whoever needs the space. Also removes what waited for readers only.
pub fn run_now(shared: &Arc<DbInner>) -> Result<()> {
    commit_batch(shared)?;
    let removable = shared.state.lock().versions.removable();
    delete_obsolete(shared, &removable);
    Ok(())
}

/// One batch. Returns how many edits it made durable.
fn commit_batch(shared: &Arc<DbInner>) -> Result<usize> {
    let mut slot = shared.manifest.lock();
    let manifest = slot.as_mut().expect("a store that is written has a manifest");
    let free = shared.free_bytes();
    let (due, stops_writers) = {
        let state = shared.state.lock();
        let retained = state.versions.retained_bytes();
        let bounds = Bounds::of(&shared.options, free, shared.compaction_debt().1, retained);
        let due = state.closing
            || (retained > 0 && retained >= unsynced_bytes_at_commit(shared, &bounds))
            || shared.flushed_open_wals(&state) >= open_wals_at_commit(shared)
            || no_jobs_for_a_while(shared, &state);
        (due, bounds.stop_at(retained))
    };
    let _blocking = stops_writers.then(BlockingScope::new);
    let decided = if due { shared.storage.commit() } else { shared.storage.advance().map(drop) };
    let (mut count, mut edits) = shared.state.lock().versions.releasable()?; // what a failure means for one of them comes first
    decided?;
    if count == 0 {
        return Ok(0);
    }
    let started = shared.clock.now();
    shared.options.tell(|| Event::SyncBegun);
    match manifest.log(&edits) {
        Err(full) if full.is_no_space() => {
            // Where the manifest ends is unknown now, so nothing can be appended to it.
            let _guard = shared.reserve.release(&*shared.storage);
            rewrite_manifest(shared, manifest)?;
            (count, edits) = shared.state.lock().versions.releasable()?;
            manifest.log(&edits)?;
        }
        logged => logged?,
    }
    let (removable, gone) = {
        let mut state = shared.state.lock();
        let (removable, tables) = state.versions.released(count)?;
        shared.advance_durable(state.versions.durable_base());
        // First: who is told that nothing needs the old logs must not find them waiting for a sync.
        let logs = shared.closed_wals.take_obsolete(state.versions.durable_replay_from());
        shared.bump_stall_epoch(&state); // less is retained
        shared.changed.notify_all();
        (removable, (tables, logs))
    };
    drop(gone); // which closes files
    shared.notify_sync_ended(started);
    delete_obsolete(shared, &removable);
    if manifest.overlong(shared.options.max_manifest_file_size) && shared.has_room(0) {
        match rewrite_manifest(shared, manifest) {
            Err(full) if full.is_no_space() && manifest.is_sure() => {} // so it goes on
            begun => begun?,
        }
    }
    let _ = shared.reserve.allocate(&*shared.storage); // if there is too little space, after the next release
    Ok(count)
}

/// Bytes retained at which a commit is forced. Where a commit is to come by itself, that is when writers begin to be held up.
/// Elsewhere it is sooner: what waits long is written to the device for nothing, as kernels do not keep much for long. It is not at
/// once, either: a table that is merged before its batch begins never needs to be written.
fn unsynced_bytes_at_commit(shared: &DbInner, bounds: &Bounds) -> u64 {
    let memtables = BATCH_MEMTABLES_MAX * shared.options.write_buffer_size;
    let soon = BATCH_BYTES_MAX.min(memtables).min(bounds.retained_bytes / 2);
    if shared.storage.is_patient() { bounds.retained_unhindered() } else { soon }
}

/// Logs whose entries are in tables, each of which is kept open, at which a commit is forced.
fn open_wals_at_commit(shared: &DbInner) -> usize {
    let most = shared.storage.closed_logs_max();
    if shared.storage.is_patient() { most } else { most.min(BATCH_MEMTABLES_MAX as usize) }
}

/// Whether nothing will be merged soon, so that a batch gains nothing by waiting until it is due.
fn no_jobs_for_a_while(shared: &DbInner, state: &DbState) -> bool {
    let patient = shared.storage.is_patient() || shared.work.is_manual();
    !patient && state.no_jobs_since.is_some_and(|since| shared.clock.since(since) >= QUIET_AFTER)
}

/// Replaces a manifest by one that begins with the durable version.
fn rewrite_manifest(shared: &DbInner, manifest: &mut Manifest) -> Result<()> {
    let (id, snapshot) = {
        let mut state = shared.state.lock();
        let id = LogId(state.versions.new_number());
        (id, state.versions.snapshot(&shared.requires))
    };
    let next = Manifest::create(&*shared.storage, id, &snapshot)?;
    shared.storage.publish_root(id).map_err(Error::from).inspect_err(|error| manifest.doubt(error))?;
    let old = std::mem::replace(manifest, next);
    let removable = {
        let mut state = shared.state.lock();
        state.versions.retire.manifest_replaced(old.id());
        state.versions.removable()
    };
    delete_files(shared, &removable);
    Ok(())
}

/// Removes what was needed until now, and tells whoever waits for space.
pub fn delete_obsolete(shared: &DbInner, objects: &[ObjectId]) {
    if objects.is_empty() {
        return;
    }
    delete_files(shared, objects);
    shared.space_freed.fetch_add(1, Ordering::Release);
    let mut state = shared.state.lock();
    state.gc.relieve();
    shared.bump_stall_epoch(&state);
    shared.changed.notify_all();
}

/// Removes what nobody needs. A failure costs space, not safety: the next open removes the rest.
pub fn delete_files(shared: &DbInner, objects: &[ObjectId]) {
    for object in objects {
        if shared.storage.remove(*object).is_err() {
            shared.stats.removal_failed();
        }
    }
}

/// Removes what came to be with `metas`, which are in no version: tables, then their bundles, and the segments that have their numbers.
pub fn delete_outputs(shared: &DbInner, metas: &[TableMeta]) {
    let tables: BTreeSet<TableId> = metas.iter().map(|meta| meta.id).collect();
    let is_new = |object: &ObjectId| match object {
        ObjectId::Bundle(_) => true,
        ObjectId::Segment(id) => tables.contains(&TableId(id.0)),
        ObjectId::Table(_) | ObjectId::Wal(_) | ObjectId::SmallLog(_) => false,
        ObjectId::Manifest(_) | ObjectId::Temporary(_) => false,
    };
    let referred = metas.iter().flat_map(|meta| &meta.refs).map(|(object, _)| *object);
    let others: BTreeSet<ObjectId> = referred.filter(is_new).collect();
    let objects: Vec<ObjectId> = tables.into_iter().map(ObjectId::Table).chain(others).collect();
    delete_files(shared, &objects);
}
