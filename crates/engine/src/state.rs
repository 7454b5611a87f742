//! State shared by the parts of the engine, and the locks that guard it.
//!
//! ```text
//! lock order:   leader state → manifest → state → (view, stats, snapshots: leaves)
//!
//! leader state  WAL writers and the next sequence number; held during WAL I/O; readers never
//!               take it
//! manifest      the manifest's writer; held during its I/O; taken to commit pending edits, by
//!               the commit job or by a caller that needs the space
//! state         versions, running jobs, failure; never held during I/O
//!
//! `ClosedWals::syncing` is held during syncs of closed WALs, alone or under the leader state.
//! ```
//!
//! Readers take one atomic load of the view and, for a snapshot, a leaf lock: no lock that is
//! held during I/O.
//!
//! The life of a version, from a job's output to the manifest:
//!
//! ```text
//!   flush or compaction job writes SSTables ──► durability handle: pending ... durable
//!         │
//!         ▼  install: under the state lock, no I/O
//!   live version  ── serves all new views, is ahead of the manifest
//!         │
//!         ▼  pending edit, in install order
//!   commit_edits job: handle durable?  ──►  append the edits to the manifest, one sync
//!         │
//!         ▼
//!   durable version  ── equals the content of the manifest
//!         │
//!         ▼  neither version and no reader needs the replaced files
//!   obsolete files are deleted; closed WALs before `replay_from` are dropped
//! ```
mod scheduling;
mod value_log_gc;

use crate::{
    Error, Event, Options, Result,
    clock::Clock,
    closed_wals::ClosedWals,
    compact::{
        compaction_rate::CompactionRate, plan::Plan, policy::Policy, reservation::RunningCompactions,
        value_log_gc::ValueLogGc,
    },
    read::{snapshot::Snapshots, view::View},
    reserve::Reserve,
    stats::Counters,
    version::set::{Manifest, VersionSet},
    waiters::Waiters,
    work::{Lane, Work},
};
use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use terrace_format::{KeyOrder, SeqNo, TableId};
use terrace_storage::{Process, placement::Storage};

/// Interval at which a waiting thread checks again: the free space may change without a signal.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Guarded by the state lock.
pub struct DbState {
    /// The live and the durable version.
    pub versions: VersionSet,
    /// Running compactions.
    pub compactions: RunningCompactions,
    /// A flush is queued or runs.
    pub flush_scheduled: bool,
    /// A commit of pending edits is queued or runs.
    pub commit_scheduled: bool,
    /// Counts the events after which the commit job has to look at the pending edits again.
    pub commit_epoch: u64,
    /// Cloned by each checkpoint that copies the SSTables of a version. While one does, no pending
    /// SSTable is given up: its copy would never become durable unnoticed.
    pub checkpoints: Arc<()>,
    /// Since when no flush or compaction runs; `None` while one does.
    pub no_jobs_since: Option<Duration>,
    /// There was no space for an optional compaction, and none was freed since.
    pub optional_suspended: bool,
    /// The SSTable that has spent its seek budget, and its level.
    pub seek_hint: Option<(usize, TableId)>,
    /// Garbage collection of the value log.
    pub gc: ValueLogGc,
    /// The first failure. Writes and background work stop with it.
    pub failed: Option<Error>,
    /// Writing moves on to a fresh WAL after an error: older WALs may not be synced any more.
    pub replacing_wal: bool,
    /// The store is closing: pending edits are committed without delay, and no compaction starts.
    pub closing: bool,
    /// The store is closed.
    pub closed: bool,
}

/// The background jobs, handed in by `db`, so that `state` need not import them.
pub struct Jobs {
    /// Flushes the immutable memtables into an SSTable.
    pub flush: fn(&Arc<DbInner>) -> Result<()>,
    /// Runs a compaction plan.
    pub compact: fn(&Arc<DbInner>, &Plan) -> Result<()>,
    /// Commits pending edits whose files are durable to the manifest.
    pub commit_edits: fn(&Arc<DbInner>) -> Result<()>,
    /// The same for a caller that needs the freed space, concurrently with that job.
    pub commit_edits_now: fn(&Arc<DbInner>) -> Result<()>,
    /// Tail GC: relocates the live values of the victims.
    pub relocate: Box<Job>,
}

/// A job that needs more than `DbInner`.
type Job = dyn Fn(&Arc<DbInner>) -> Result<()> + Send + Sync;

/// One open store.
pub struct DbInner {
    /// The options, as given at open.
    pub options: Options,
    /// The order of user keys.
    pub order: KeyOrder,
    /// The storage that holds all files.
    pub storage: Arc<dyn Storage>,
    /// Feature flags that the manifest must announce.
    pub requires: Vec<String>,
    /// Whether range tombstones are one of them.
    pub has_range_tombstones: bool,
    /// Whether values are separated from keys, so that SSTables hold value pointers that `storage`
    /// resolves.
    pub separates_values: bool,
    /// WALs in which recovery found bytes that are no part of the history.
    pub torn_wals: u64,
    /// Files in `lost/` at open.
    pub lost_files: u64,
    /// The process that opened the store, the only one that may use it.
    pub process: Process,
    /// The clock.
    pub clock: Clock,
    /// The executor of background jobs.
    pub work: Arc<Work>,
    /// The background jobs.
    pub jobs: Jobs,
    /// Disk space for the moment when there is none.
    pub reserve: Reserve,
    /// How fast compactions have written. A leaf lock.
    pub rate: Mutex<CompactionRate>,
    /// The compaction policy.
    pub policy: Box<dyn Policy>,
    /// Counters.
    pub stats: Counters,
    /// Snapshots held.
    pub snapshots: Arc<Snapshots>,
    /// The view that readers load; replaced under the state lock.
    pub view: ArcSwap<View>,
    /// WALs that a sync must still reach.
    pub closed_wals: ClosedWals,
    /// Stall epoch: counts the events that may change the admission of writes (a new view, a commit
    /// of edits, a failure, the close). While it is unchanged, writers need not take the state
    /// lock. Raised under that lock.
    pub stall_epoch: AtomicU64,
    /// How often space was freed.
    pub space_freed: AtomicU64,
    /// Jobs that wait for space.
    pub jobs_out_of_space: AtomicUsize,
    /// The last sequence number that readers may see.
    pub visible: AtomicU64,
    /// Durable watermark: every write up to this sequence number survives a power cut.
    pub durable: AtomicU64,
    /// In durability mode `none`, which has no durable watermark: every write up to this sequence
    /// number survives a kill, unlogged ones too.
    pub kill_safe: AtomicU64,
    /// Asynchronous tasks that wait for the durable watermark.
    pub waiters: Waiters,
    /// See the lock order above. `None` in a store opened for reading only.
    pub manifest: Mutex<Option<Manifest>>,
    /// See the lock order above.
    pub state: Mutex<DbState>,
    /// Signalled whenever the state changes.
    pub changed: Condvar,
    /// How often the compaction policy was asked for a plan.
    #[cfg(test)]
    pub picks: AtomicU64,
}

impl DbInner {
    /// Refuses a forked child, which has neither the threads nor the locks of the process that
    /// opened the store.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.process.is_current() { Ok(()) } else { Err(self.forked()) }
    }

    #[cold]
    fn forked(&self) -> Error {
        terrace_storage::Error::forked(self.storage.name(), self.process).into()
    }

    /// Returns the last sequence number that readers may see.
    pub fn visible(&self) -> SeqNo {
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// Raises the durable watermark to `seq`, if the durability mode promises anything.
    pub fn advance_durable(&self, seq: SeqNo) {
        if self.storage.promises() {
            self.durable.fetch_max(seq.0, Ordering::AcqRel);
        }
    }

    /// Returns the sequence number up to which callers need not wait any more: the durable
    /// watermark, or in durability mode `none` what survives a kill.
    pub fn safe_sequence(&self) -> u64 {
        let watermark = if self.storage.promises() { &self.durable } else { &self.kill_safe };
        watermark.load(Ordering::Acquire)
    }

    /// Wakes the tasks that wait for the durable watermark.
    pub fn wake_durable(&self) {
        self.waiters.wake(self.safe_sequence());
    }

    /// Wakes all waiting tasks after a failure. Like [`wake_durable`](DbInner::wake_durable) to be
    /// called without any lock and without the leader state: a waker may drop a store.
    pub fn wake_failed(&self) {
        if self.state.lock().failed.is_some() {
            self.waiters.wake(u64::MAX);
        }
    }

    /// Stops writes and background work. The first failure stays the reason, except that a
    /// permanent one replaces a lack of space.
    pub fn fail(&self, error: &Error) {
        self.fail_and_end(error, |_| ());
    }

    /// As [`fail`](DbInner::fail), for a failed job. The function `ended` records in the state that
    /// the job has ended. The failure and the end are recorded under one lock. Otherwise `resume`,
    /// which waits for all jobs to end, could run between the two.
    fn fail_and_end(&self, error: &Error, ended: impl FnOnce(&mut DbState)) {
        let mut state = self.state.lock();
        ended(&mut state);
        let counts = state.failed.as_ref().is_none_or(|first| first.is_no_space() && !error.is_no_space());
        if counts {
            state.failed = Some(error.clone());
        }
        self.bump_stall_epoch(&state);
        self.changed.notify_all();
        drop(state);
        if counts {
            self.options.notify(|| Event::Stopped { error: error.clone() });
        }
    }

    /// Notifies the listener of the end of a sync that took `time`. To be called under no lock.
    pub fn notify_sync_ended(&self, time: Duration) {
        let durable = self.durable.load(Ordering::Acquire);
        self.options.notify(|| Event::SyncEnd { durable, time });
    }

    /// Records that space was freed: optional work may be tried again.
    pub fn note_space_freed(&self, state: &mut DbState) {
        state.gc.on_space_freed();
        state.optional_suspended = false;
    }

    /// Makes the next writer look at the state.
    pub fn bump_stall_epoch(&self, _control: &DbState) {
        self.stall_epoch.fetch_add(1, Ordering::Release);
    }

    /// Returns an error if the store takes no more writes.
    pub fn check_writable(&self, state: &DbState) -> Result<()> {
        match &state.failed {
            _ if state.closed => Err(Error::Closed),
            Some(first) => Err(Error::FailStopped(Arc::new(first.clone()))),
            None => Ok(()),
        }
    }

    /// Makes the commit job look at the pending edits. To be called without the state lock.
    pub fn request_commit(&self) {
        self.state.lock().commit_epoch += 1;
        self.changed.notify_all();
    }

    /// Makes all finished files durable and has the edits that wait for them committed.
    pub fn commit_storage(&self) -> Result<()> {
        let outcome = self.storage.commit();
        self.request_commit(); // also after an error, which the handles of the files have
        Ok(outcome?)
    }

    /// Replaces the view. The caller holds the state lock.
    pub fn set_view(&self, state: &DbState, change: impl FnOnce(&View) -> View) {
        let next = change(&self.view.load());
        self.view.store(Arc::new(next));
        self.bump_stall_epoch(state);
    }

    /// Waits until `done` returns true, and runs background steps of a manual executor meanwhile.
    /// Returns an error once the store has failed.
    pub fn wait_until(&self, mut done: impl FnMut(&mut DbState) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if done(&mut state) {
                return Ok(());
            }
            self.check_writable(&state)?;
            self.wait_for_change(&mut state)?;
        }
    }

    /// Number of closed WALs whose entries are in SSTables that are not durable yet.
    pub fn flushed_open_wals(&self, state: &DbState) -> usize {
        self.closed_wals.count_before(state.versions.replay_from())
    }

    /// Returns whether so many of them are open that no other WAL may be closed before the file
    /// system commits.
    pub fn has_too_many_wals(&self, state: &DbState) -> bool {
        self.flushed_open_wals(state) / 2 >= self.storage.closed_wals_max()
    }

    /// Waits until one more memtable may wait for its flush.
    pub fn wait_to_seal(&self) -> Result<()> {
        let mut awaits_commit = None;
        self.wait_until(|state| {
            let too_many_wals = self.has_too_many_wals(state);
            awaits_commit = too_many_wals.then(|| self.storage.io_stats().wait_for_syncs());
            !too_many_wals && (self.view.load().sealed.len() as u64) + 1 < self.options.max_write_buffer_number
        })
    }

    /// Waits once: for a signal, or by running a step of a manual executor.
    pub fn wait_for_change(&self, state: &mut MutexGuard<'_, DbState>) -> Result<()> {
        if !self.work.is_manual() {
            if self.changed.wait_for(state, LOOK_AGAIN).timed_out() {
                self.work.start_missing_threads();
            }
            return Ok(());
        }
        // The waiting thread may hold the leader state. Jobs of these lanes would wait for it.
        match MutexGuard::unlocked(state, || self.work.step_except(&[Lane::Relocate, Lane::Idle])) {
            Some(_) => Ok(()),
            None => Err(Error::Bug("waiting for background work that is not queued".into())),
        }
    }
}
