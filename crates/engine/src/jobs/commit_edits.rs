//! Commits pending edits to the manifest and deletes the files that become obsolete.
//!
//! This is where the rule of docs/durability.md is enforced: an edit enters the manifest only
//! when the files it names are durable, and a file is deleted only when the edit that removes it
//! is durable. One commit runs at a time, under the manifest lock.
use crate::{
    Error, Event, Result,
    bounds::BacklogBounds,
    state::{DbInner, DbState},
    version::{objects_written_with, set::Manifest},
};
use parking_lot::MutexGuard;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use terrace_format::LogId;
use terrace_storage::{
    BlockingScope,
    placement::{ObjectId, TableMeta},
};

/// Shortest time between two checks of durability handles without an event in between.
const POLL_MIN: Duration = Duration::from_millis(2);
/// Longest time between two checks of them.
const POLL_MAX: Duration = Duration::from_millis(100);
/// The same in modes that wait for the file system's own commits, which take seconds.
const JOURNAL_POLL: Duration = Duration::from_millis(20);
/// Time without a flush or compaction after which none is expected soon.
const QUIET_AFTER: Duration = Duration::from_millis(200);
/// Upper bound of the unsynced bytes at which a commit is forced.
const BATCH_BYTES_MAX: u64 = 512 << 20;
/// The same in memtables: the next open after a kill makes a level 0 run of each.
const BATCH_MEMTABLES_MAX: u64 = 16;

/// Commits pending edits, each batch as soon as its files are durable, until none is left. Looks
/// for due compactions only after a commit. A manual executor commits at most one batch per step.
/// Each batch has its own retries, so that the reserve is released for no more than one.
pub fn run(shared: &Arc<DbInner>) -> Result<()> {
    loop {
        let seen = shared.state.lock().commit_epoch;
        let committed = shared.retry_on_no_space(0, || commit_batch(shared))?;
        shared.wake_durable(); // under no lock: a waker may drop a store
        let mut state = shared.state.lock();
        if shared.work.is_manual() || is_over(&state) {
            state.commit_scheduled = false;
            shared.schedule(&mut state);
            return Ok(());
        }
        if committed > 0 {
            shared.schedule(&mut state);
        } else {
            wait_for_event(shared, state, seen);
        }
    }
}

/// Returns whether the job has nothing to wait for.
fn is_over(state: &DbState) -> bool {
    state.versions.pending() == 0 || state.failed.is_some() || state.closed
}

/// Waits until an edit is installed, a caller has committed the storage, the store is closing, or
/// a deadline has passed.
fn wait_for_event(shared: &DbInner, mut state: MutexGuard<'_, DbState>, seen: u64) {
    let end = shared.clock.now() + time_to_deadline(shared, &state);
    while state.commit_epoch == seen && !is_over(&state) {
        let left = end.saturating_sub(shared.clock.now());
        if left.is_zero() {
            return;
        }
        shared.changed.wait_for(&mut state, left);
    }
}

/// Returns the time until the durability mode may have made an edit durable on its own, or until
/// the store has been without jobs for so long that a commit is due.
fn time_to_deadline(shared: &DbInner, state: &DbState) -> Duration {
    if shared.storage.waits_for_fs_commit() {
        return JOURNAL_POLL;
    }
    let interval = Duration::from_millis(shared.options.durability_interval_ms);
    let poll = (interval / 8).clamp(POLL_MIN, POLL_MAX);
    match state.no_jobs_since {
        Some(since) => poll.min(QUIET_AFTER.saturating_sub(shared.clock.since(since))).max(POLL_MIN),
        None => poll,
    }
}

/// As [`run`], for a caller that needs the space, concurrently with the job. Also deletes files
/// that only readers held.
pub fn run_now(shared: &Arc<DbInner>) -> Result<()> {
    if commit_batch(shared)? > 0 {
        shared.request_commit(); // the job may have nothing left to wait for
    }
    let removable = shared.state.lock().versions.removable();
    delete_obsolete(shared, &removable);
    Ok(())
}

/// Commits one batch of edits. Returns how many became durable in the manifest. Calls the listener
/// under no lock.
fn commit_batch(shared: &Arc<DbInner>) -> Result<usize> {
    let free = shared.free_bytes();
    let (due, stops_writers) = {
        let state = shared.state.lock();
        let retained = state.versions.retained_bytes();
        let bounds = BacklogBounds::of(&shared.options, free, shared.compaction_debt().1, retained);
        let due = state.closing
            || (retained > 0 && retained >= unsynced_bytes_at_commit(shared, &bounds))
            || shared.flushed_open_wals(&state) >= open_wals_at_commit(shared)
            || no_jobs_for_a_while(shared, &state);
        (due, bounds.stop_at(retained))
    };
    let _blocking = stops_writers.then(BlockingScope::new);
    let decided = if due { shared.storage.commit() } else { shared.storage.advance().map(drop) };
    // A failed durability handle takes precedence over the error of the commit.
    let (count, _) = shared.state.lock().versions.committable()?;
    decided?;
    if count == 0 {
        return Ok(0);
    }
    let started = shared.clock.now();
    shared.options.notify(|| Event::SyncBegin);
    let (count, ended) = append_edits(shared)?;
    shared.notify_sync_ended(ended.saturating_sub(started));
    rewrite_large_manifest(shared)?;
    let _ = shared.reserve.allocate(&*shared.storage); // without space, after the next commit
    Ok(count)
}

/// Appends the edits whose files are durable to the manifest, with one sync, and deletes the files
/// that this makes obsolete. Returns the number of edits, and when the sync ended.
fn append_edits(shared: &Arc<DbInner>) -> Result<(usize, Duration)> {
    let mut slot = shared.manifest.lock();
    let manifest = slot.as_mut().expect("a store open for writing has a manifest");
    let (mut count, mut edits) = shared.state.lock().versions.committable()?;
    if count == 0 {
        return Ok((0, shared.clock.now())); // a concurrent commit had them
    }
    match manifest.log(&edits) {
        Err(full) if full.is_no_space() => {
            // The end of the manifest is unknown now, so nothing can be appended to it.
            let _guard = shared.reserve.release(&*shared.storage);
            rewrite_manifest(shared, manifest)?;
            (count, edits) = shared.state.lock().versions.committable()?;
            manifest.log(&edits)?;
        }
        logged => logged?,
    }
    let (removable, replaced) = {
        let mut state = shared.state.lock();
        let (removable, tables) = state.versions.mark_committed(count)?;
        shared.advance_durable(state.versions.durable_base());
        // First: a thread that sees the new `durable_replay_from` must not find the old WALs in
        // line for a sync.
        let logs = shared.closed_wals.take_obsolete(state.versions.durable_replay_from());
        shared.bump_stall_epoch(&state); // fewer bytes are retained
        shared.changed.notify_all();
        (removable, (tables, logs))
    };
    let ended = shared.clock.now();
    drop(replaced); // this closes files
    delete_obsolete(shared, &removable);
    Ok((count, ended))
}

/// Replaces the manifest if it has become large and there is space. Without space the old one
/// stays in use.
fn rewrite_large_manifest(shared: &DbInner) -> Result<()> {
    let mut slot = shared.manifest.lock();
    let manifest = slot.as_mut().expect("a store open for writing has a manifest");
    if !manifest.needs_rewrite(shared.options.max_manifest_file_size) || !shared.has_room(0) {
        return Ok(());
    }
    match rewrite_manifest(shared, manifest) {
        Err(full) if full.is_no_space() && manifest.is_root() => Ok(()),
        begun => begun,
    }
}

/// Returns the retained bytes at which a commit is forced. Where the file system commits on its
/// own schedule, that is the point at which writers would be slowed. Elsewhere it is sooner: the
/// kernel writes back old pages anyway, so a long wait saves no device writes. It is not at once
/// either: an SSTable that a compaction consumes before its sync never has to reach the device.
fn unsynced_bytes_at_commit(shared: &DbInner, bounds: &BacklogBounds) -> u64 {
    let memtables = BATCH_MEMTABLES_MAX * shared.options.write_buffer_size;
    let soon = BATCH_BYTES_MAX.min(memtables).min(bounds.retained_bytes / 2);
    if shared.storage.waits_for_fs_commit() { bounds.retained_before_slowdown() } else { soon }
}

/// Returns the number of flushed but still open WALs at which a commit is forced.
fn open_wals_at_commit(shared: &DbInner) -> usize {
    let most = shared.storage.closed_wals_max();
    if shared.storage.waits_for_fs_commit() { most } else { most.min(BATCH_MEMTABLES_MAX as usize) }
}

/// Returns whether no compaction is expected soon, so that a batch gains nothing by waiting.
fn no_jobs_for_a_while(shared: &DbInner, state: &DbState) -> bool {
    let patient = shared.storage.waits_for_fs_commit() || shared.work.is_manual();
    !patient && state.no_jobs_since.is_some_and(|since| shared.clock.since(since) >= QUIET_AFTER)
}

/// Replaces the manifest by one that begins with the durable version.
fn rewrite_manifest(shared: &DbInner, manifest: &mut Manifest) -> Result<()> {
    let (id, snapshot) = {
        let mut state = shared.state.lock();
        let id = LogId(state.versions.new_number());
        (id, state.versions.snapshot(&shared.requires))
    };
    let next = Manifest::create(&*shared.storage, id, &snapshot)?;
    shared.storage.publish_root(id).map_err(Error::from).inspect_err(|error| manifest.mark_uncertain(error))?;
    let old = std::mem::replace(manifest, next);
    let removable = {
        let mut state = shared.state.lock();
        state.versions.obsolete_files.manifest_replaced(old.id());
        state.versions.removable()
    };
    delete_files(shared, &removable);
    Ok(())
}

/// Deletes files that became obsolete and wakes the threads that wait for space.
pub fn delete_obsolete(shared: &DbInner, objects: &[ObjectId]) {
    if objects.is_empty() {
        return;
    }
    delete_files(shared, objects);
    shared.space_freed.fetch_add(1, Ordering::Release);
    let mut state = shared.state.lock();
    shared.note_space_freed(&mut state);
    shared.bump_stall_epoch(&state);
    shared.changed.notify_all();
}

/// Deletes files. A failure costs space, not safety: the next open deletes the rest.
pub fn delete_files(shared: &DbInner, objects: &[ObjectId]) {
    for object in objects {
        if shared.storage.remove(*object).is_err() {
            shared.stats.deletion_failed();
        }
    }
}

/// Deletes the files that were written for `metas`, which are in no version.
pub fn delete_outputs(shared: &DbInner, metas: &[TableMeta]) {
    delete_files(shared, &objects_written_with(metas));
}
