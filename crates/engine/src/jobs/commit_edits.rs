//! Commits pending edits to the manifest and deletes the files that become obsolete.
//!
//! This module enforces the rule of docs/durability.md: an edit enters the manifest only when the
//! files that it names are durable, and a file is deleted only when the edit that removes it is
//! durable. The manifest lock ensures that only one commit runs at a time.
use crate::{
    Error, Event, Result,
    bounds::BacklogBounds,
    reserve::ReserveUser,
    state::{DbInner, DbState},
    version::{objects_written_with, set::Manifest},
};
use parking_lot::MutexGuard;
use std::{
    slice,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use terrace_format::{LogId, edit::Edit};
use terrace_storage::{
    BlockingScope,
    placement::{ObjectId, TableMeta},
};

/// Shortest time for which the commit job waits between two checks of the durability handles, if
/// no event causes an earlier check.
const POLL_MIN: Duration = Duration::from_millis(2);
/// Longest time for which the commit job waits between two checks of the durability handles.
const POLL_MAX: Duration = Duration::from_millis(100);
/// Time between two checks of the durability handles in durability modes that wait for the file
/// system's own journal commits, which are seconds apart.
const JOURNAL_POLL: Duration = Duration::from_millis(20);
/// If no flush or compaction has run for this time, the commit job expects none soon.
const QUIET_AFTER: Duration = Duration::from_millis(200);
/// Upper bound, in bytes, of the limit at which the number of retained bytes forces a commit of
/// pending edits.
const BATCH_BYTES_MAX: u64 = 512 << 20;
/// Upper bound, in memtables, of the limit at which retained bytes or open WALs force a commit of
/// pending edits. The reason: after a kill, the next open replays the WALs and makes a sorted run
/// in level 0 of each memtable.
const BATCH_MEMTABLES_MAX: u64 = 16;

/// Commits pending edits until none is left. Each batch of edits is committed as soon as the files
/// of its edits are durable. After each commit the job starts the compactions that have become
/// due; while it only waits, it does not search for them. With a manual executor it commits at
/// most one batch per step. Each batch has its own retry budget for a full disk, so that the job
/// releases the reserve for only one batch at a time.
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

/// Returns whether the commit job can end: no edit is pending, or the store has failed or is
/// closed.
fn is_over(state: &DbState) -> bool {
    state.versions.pending() == 0 || state.failed.is_some() || state.closed
}

/// Waits until the state of pending edits may have changed: an edit was installed, a caller has
/// made all files durable, the store is closing, or the time of the next check has come.
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

/// Returns the time until the next check of the durability handles: until the durability mode may
/// have made an edit durable by itself, or until no job has run for so long that a commit is due.
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

/// Commits one batch of edits like [`run`], for a caller that needs disk space now. The commit job
/// may run concurrently. Also deletes obsolete files that readers have stopped using.
pub fn run_now(shared: &Arc<DbInner>) -> Result<()> {
    if commit_batch(shared)? > 0 {
        shared.request_commit(); // wakes the commit job, which ends if no edit is pending
    }
    let removable = shared.state.lock().versions.removable();
    delete_obsolete(shared, &removable);
    Ok(())
}

/// Commits one batch of edits. Returns how many of them became durable in the manifest. The
/// function has no lock when it calls the listener.
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
    // If the sync of a file has failed, the file's durability handle has the cause. `committable`
    // returns this cause, so it is reported before an error of the commit.
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
    let _ = shared.reserve.allocate(&*shared.storage); // if this fails: after the next commit
    Ok(count)
}

/// Appends the edits whose files are durable to the manifest, syncs the manifest once, and deletes
/// the files that become obsolete. Returns the number of edits and the time at which the sync
/// ended.
fn append_edits(shared: &Arc<DbInner>) -> Result<(usize, Duration)> {
    let mut slot = shared.manifest.lock();
    let manifest = slot.as_mut().expect("a store open for writing has a manifest");
    let (mut count, mut edits) = shared.state.lock().versions.committable()?;
    if count == 0 {
        return Ok((0, shared.clock.now())); // a concurrent commit appended them
    }
    match manifest.log(&edits) {
        Err(full) if full.is_no_space() => {
            // The failed append may have written a part of its record, so nothing more can be
            // appended to this manifest. A new manifest replaces it.
            let _guard = shared.reserve.release(&*shared.storage, ReserveUser::Manifest);
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
        // Obsolete WALs are removed from the closed WALs before any other step. Otherwise a thread
        // that sees the new `durable_replay_from` could still find older WALs among those that wait
        // for a sync.
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

/// Appends `edit` to the manifest and syncs the manifest. If the disk is full during the append,
/// the end of the manifest is unknown. The function then releases the reserve and continues in a
/// new manifest.
pub(super) fn append_now(shared: &DbInner, manifest: &mut Manifest, edit: &Edit) -> Result<()> {
    match manifest.log(slice::from_ref(edit)) {
        Err(full) if full.is_no_space() => {
            let _guard = shared.reserve.release(&*shared.storage, ReserveUser::Manifest);
            rewrite_manifest(shared, manifest)?;
            manifest.log(slice::from_ref(edit))
        }
        logged => logged,
    }
}

/// Replaces the manifest by a new one if it has become large and there is space. If there is no
/// space, the old manifest stays in use.
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

/// Returns the number of retained bytes at which a commit of pending edits is forced.
///
/// In durability modes that wait for the file system's own commits, this is the number at which
/// writers would be slowed. In the other modes the number is smaller, because a longer wait saves
/// no device writes: the kernel writes old pages back anyway. But edits are not committed
/// immediately either. If a compaction consumes an SSTable before the SSTable's sync, the SSTable
/// never has to be written to the device.
fn unsynced_bytes_at_commit(shared: &DbInner, bounds: &BacklogBounds) -> u64 {
    let memtables = BATCH_MEMTABLES_MAX * shared.options.write_buffer_size;
    let soon = BATCH_BYTES_MAX.min(memtables).min(bounds.retained_bytes / 2);
    if shared.storage.waits_for_fs_commit() { bounds.retained_before_slowdown() } else { soon }
}

/// Returns how many closed WALs may be open although all their entries are flushed. At this number
/// a commit of pending edits is forced, which makes the WALs obsolete.
fn open_wals_at_commit(shared: &DbInner) -> usize {
    let most = shared.storage.closed_wals_max();
    if shared.storage.waits_for_fs_commit() { most } else { most.min(BATCH_MEMTABLES_MAX as usize) }
}

/// Returns whether no flush or compaction has run for so long that none is expected soon. A batch
/// of edits then gains nothing by a longer wait.
fn no_jobs_for_a_while(shared: &DbInner, state: &DbState) -> bool {
    let patient = shared.storage.waits_for_fs_commit() || shared.work.is_manual();
    !patient && state.no_jobs_since.is_some_and(|since| shared.clock.since(since) >= QUIET_AFTER)
}

/// Replaces the manifest by a new one that begins with the durable version.
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
    shared.free_bytes(); // the compaction policy uses the last measurement
    let mut state = shared.state.lock();
    shared.note_space_freed(&mut state);
    shared.bump_stall_epoch(&state);
    shared.changed.notify_all();
}

/// Deletes files. If a file cannot be deleted, it only wastes space: the next open deletes it.
pub fn delete_files(shared: &DbInner, objects: &[ObjectId]) {
    for object in objects {
        if shared.storage.remove(*object).is_err() {
            shared.stats.deletion_failed();
        }
    }
}

/// Deletes the files of the tables `metas`, which a job wrote and which are in no version.
pub fn delete_outputs(shared: &DbInner, metas: &[TableMeta]) {
    delete_files(shared, &objects_written_with(metas));
}
