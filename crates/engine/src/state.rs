//! The state that all parts of the engine share, and the locks that guard it.
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
//! A reader does one atomic load of the view and, for a snapshot, takes a leaf lock. It takes no
//! lock that is held during I/O.
//!
//! The stages of a version, from a job's output to the manifest:
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
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use terrace_format::{FamilyId, KeyOrder, SeqNo, TableId};
use terrace_storage::{Process, placement::Storage};

/// Interval at which a thread that waits for a change checks again, because the free disk space
/// may change without a signal.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The state that the state lock guards.
pub struct DbState {
    /// The live and the durable version.
    pub versions: VersionSet,
    /// The number of rotations of the WAL whose memtables wait for their flush.
    pub sealed: u64,
    /// The running compactions.
    pub compactions: RunningCompactions,
    /// Whether a flush is queued or running.
    pub flush_scheduled: bool,
    /// Whether the job that commits pending edits is queued or running.
    pub commit_scheduled: bool,
    /// The number of events so far after which the commit job must check the pending edits again.
    pub commit_epoch: u64,
    /// Each checkpoint that copies the SSTables of a version has a clone of this value. While a
    /// clone exists, no compaction cancels the sync of an SSTable that it replaces. Otherwise a
    /// checkpoint could copy such an SSTable, the copy would never become durable, and the
    /// checkpoint would not notice it.
    pub checkpoints: Arc<()>,
    /// The time since which no flush or compaction has been running; `None` while one is running.
    pub no_jobs_since: Option<Duration>,
    /// Whether an optional compaction found too little disk space, and no space has been freed
    /// since then.
    pub optional_suspended: bool,
    /// The SSTable whose seek budget is exhausted, with its column family and its level.
    pub seek_hint: Option<(FamilyId, usize, TableId)>,
    /// The column family that is being dropped. No compaction of it starts any more.
    pub dropping: Option<FamilyId>,
    /// The state of value-log garbage collection.
    pub gc: ValueLogGc,
    /// The first failure, which stops writes and background work.
    pub failed: Option<Error>,
    /// Whether the store is switching to a new WAL because of an error. Until the switch is
    /// complete, older WALs must not be synced.
    pub replacing_wal: bool,
    /// Whether the store is closing. Pending edits are then committed without delay, and no
    /// compaction starts.
    pub closing: bool,
    /// Whether the store is closed.
    pub closed: bool,
}

/// The background jobs. The module `db` passes them to the module `state`, so that `state` does
/// not import them.
pub struct Jobs {
    /// Flushes the immutable memtables into an SSTable.
    pub flush: fn(&Arc<DbInner>) -> Result<()>,
    /// Executes a compaction plan.
    pub compact: fn(&Arc<DbInner>, &Plan) -> Result<()>,
    /// Commits pending edits whose files are durable to the manifest.
    pub commit_edits: fn(&Arc<DbInner>) -> Result<()>,
    /// Commits pending edits for a caller that needs disk space now. The commit job may run
    /// concurrently.
    pub commit_edits_now: fn(&Arc<DbInner>) -> Result<()>,
    /// Tail GC: re-appends the live values of the victims.
    pub relocate: Box<Job>,
}

/// A job that needs more data than `DbInner` has.
type Job = dyn Fn(&Arc<DbInner>) -> Result<()> + Send + Sync;

/// One open store.
pub struct DbInner {
    /// A number that distinguishes this open store from all other stores in this process, and from
    /// earlier opens of the same store.
    pub instance: u64,
    /// The options with which the store was opened.
    pub options: Options,
    /// The order of user keys.
    pub order: KeyOrder,
    /// The absolute path of the store's directory. Set only by `Db::open`, and only if the store
    /// has a directory of its own.
    pub directory: OnceLock<PathBuf>,
    /// The storage that contains all files.
    pub storage: Arc<dyn Storage>,
    /// The feature flags that the manifest must contain.
    pub requires: Vec<String>,
    /// Whether the store has the feature flag for range tombstones.
    pub has_range_tombstones: bool,
    /// Whether the store separates values from keys. SSTables then contain value pointers, and
    /// `storage` reads the values to which they point.
    pub separates_values: bool,
    /// The number of WALs in which recovery found bytes that are not part of the history.
    pub torn_wals: u64,
    /// The number of files in `lost/` at the open.
    pub lost_files: u64,
    /// The process that opened the store. Only this process may use it.
    pub process: Process,
    /// The clock.
    pub clock: Clock,
    /// The executor of background jobs.
    pub work: Arc<Work>,
    /// The functions of the background jobs.
    pub jobs: Jobs,
    /// The disk space that is reserved for a full disk.
    pub reserve: Reserve,
    /// The rate limiter of compactions. Its lock is a leaf lock.
    pub rate: Mutex<CompactionRate>,
    /// The compaction policy.
    pub policy: Box<dyn Policy>,
    /// Counters for statistics.
    pub stats: Counters,
    /// The snapshots that exist.
    pub snapshots: Arc<Snapshots>,
    /// The view that readers load. A job replaces it under the state lock.
    pub view: ArcSwap<View>,
    /// Closed WALs that are not synced yet.
    pub closed_wals: ClosedWals,
    /// Stall epoch: the number of events that may change whether a write must wait (a new view, a
    /// commit of edits, a failure, the close). As long as it is unchanged, writers need not take
    /// the state lock. A thread that changes it must hold the state lock.
    pub stall_epoch: AtomicU64,
    /// The number of times that disk space was freed.
    pub space_freed: AtomicU64,
    /// The free bytes of the disk when they were last measured; `u64::MAX` if unknown. The
    /// compaction policy reads this value, because it runs under the state lock and does no I/O.
    pub last_free_bytes: AtomicU64,
    /// Held by the job that retries after a lack of disk space. Two jobs that retry at the same
    /// time could both fail, although each has enough space if it runs alone. A thread takes it
    /// before all other locks.
    pub space_turn: Mutex<()>,
    /// The number of jobs that wait for disk space.
    pub jobs_out_of_space: AtomicUsize,
    /// The last sequence number that readers may see.
    pub visible: AtomicU64,
    /// Durable watermark: every write up to this sequence number survives a power cut.
    pub durable: AtomicU64,
    /// The substitute for the durable watermark in durability mode `none`, where no write survives
    /// a power cut for certain: every write up to this sequence number, including unlogged ones,
    /// survives a kill of the process.
    pub kill_safe: AtomicU64,
    /// The asynchronous tasks that wait for the durable watermark.
    pub waiters: Waiters,
    /// The current manifest; `None` in a store opened for reading only. The module header states
    /// its place in the lock order.
    pub manifest: Mutex<Option<Manifest>>,
    /// The state under the state lock. The module header states its place in the lock order.
    pub state: Mutex<DbState>,
    /// A condition variable that is signalled whenever the state changes.
    pub changed: Condvar,
    /// The number of times that the compaction policy was called for a plan.
    #[cfg(test)]
    pub picks: AtomicU64,
}

impl DbInner {
    /// Returns an error in a forked child. A child does not have the threads and the locks of the
    /// process that opened the store.
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

    /// Raises the durable watermark to `seq`. In durability mode `none`, which promises nothing at
    /// a power cut, the function instead raises the sequence number up to which writes survive a
    /// kill.
    pub fn advance_durable(&self, seq: SeqNo) {
        self.watermark().fetch_max(seq.0, Ordering::AcqRel);
    }

    fn watermark(&self) -> &AtomicU64 {
        if self.storage.promises() { &self.durable } else { &self.kill_safe }
    }

    /// Returns the sequence number up to which callers of [`wait_durable`](crate::Db::wait_durable)
    /// need not wait any more. This is the durable watermark. In durability mode `none` it is the
    /// sequence number up to which writes survive a kill.
    pub fn safe_sequence(&self) -> u64 {
        self.watermark().load(Ordering::Acquire)
    }

    /// Wakes the tasks that wait for the durable watermark.
    pub fn wake_durable(&self) {
        self.waiters.wake(self.safe_sequence());
    }

    /// Wakes all waiting tasks after a failure. As for [`wake_durable`](DbInner::wake_durable), the
    /// caller must hold no lock, and not the leader state, because a waker may drop a store.
    pub fn wake_failed(&self) {
        if self.state.lock().failed.is_some() {
            self.waiters.wake(u64::MAX);
        }
    }

    /// Stops writes and background work. If there are several failures, later writes report the
    /// first one as the reason. One exception: a permanent failure replaces a lack of space.
    pub fn fail(&self, error: &Error) {
        self.fail_and_end(error, |_| ());
    }

    /// Works like [`fail`](DbInner::fail), for a failed job. The function `ended` records in the
    /// state that the job has ended. The failure and the end are recorded under one lock. Otherwise
    /// `resume`, which waits for the end of all jobs, could see the end of the job before its
    /// failure, or the failure before the end.
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

    /// Notifies the listener of the end of a sync that took `time`. The caller must hold no lock.
    pub fn notify_sync_ended(&self, time: Duration) {
        let durable = self.durable.load(Ordering::Acquire);
        self.options.notify(|| Event::SyncEnd { durable, time });
    }

    /// Records that space was freed, so that optional work may start again.
    pub fn note_space_freed(&self, state: &mut DbState) {
        state.gc.on_space_freed();
        state.optional_suspended = false;
    }

    /// Raises the stall epoch, which makes the next writer check the state.
    pub fn bump_stall_epoch(&self, _control: &DbState) {
        self.stall_epoch.fetch_add(1, Ordering::Release);
    }

    /// Returns an error if the store accepts no more writes.
    pub fn check_writable(&self, state: &DbState) -> Result<()> {
        match &state.failed {
            _ if state.closed => Err(Error::Closed),
            Some(first) => Err(Error::FailStopped(Arc::new(first.clone()))),
            None => Ok(()),
        }
    }

    /// Makes the commit job check the pending edits. The caller must not hold the state lock.
    pub fn request_commit(&self) {
        self.state.lock().commit_epoch += 1;
        self.changed.notify_all();
    }

    /// Makes all finished files durable, and requests a commit of the edits that wait for these
    /// files.
    pub fn commit_storage(&self) -> Result<()> {
        let outcome = self.storage.commit();
        self.request_commit(); // also after an error, which the durability handles have
        Ok(outcome?)
    }

    /// Replaces the view. The caller holds the state lock.
    pub fn set_view(&self, state: &DbState, change: impl FnOnce(&View) -> View) {
        let next = change(&self.view.load());
        self.view.store(Arc::new(next));
        self.bump_stall_epoch(state);
    }

    /// Waits until `done` returns true for the state. With a manual executor, the wait runs
    /// background steps. Returns an error once the store has failed.
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

    /// Returns the number of closed WALs whose entries are all in SSTables, of which some are not
    /// durable yet.
    pub fn flushed_open_wals(&self, state: &DbState) -> usize {
        self.closed_wals.count_before(state.versions.replay_from())
    }

    /// Returns whether there are too many closed WALs whose entries are in SSTables that are not
    /// durable yet. If so, no other WAL may be closed until the file system commits.
    pub fn has_too_many_wals(&self, state: &DbState) -> bool {
        self.flushed_open_wals(state) / 2 >= self.storage.closed_wals_max()
    }

    /// Waits until one more memtable may be sealed and wait for its flush.
    pub fn wait_to_seal(&self) -> Result<()> {
        let mut awaits_commit = None;
        self.wait_until(|state| {
            let too_many_wals = self.has_too_many_wals(state);
            awaits_commit = too_many_wals.then(|| self.storage.io_stats().wait_for_syncs());
            !too_many_wals && state.sealed + 1 < self.options.max_write_buffer_number
        })
    }

    /// Waits once for a change of the state: for a signal or, with a manual executor, by running
    /// one step.
    pub fn wait_for_change(&self, state: &mut MutexGuard<'_, DbState>) -> Result<()> {
        if !self.work.is_manual() {
            if self.changed.wait_for(state, LOOK_AGAIN).timed_out() {
                self.work.start_missing_threads();
            }
            return Ok(());
        }
        // The waiting thread may hold the leader state. Jobs of the lanes `Relocate` and `Idle`
        // would wait for the leader state, so this thread must not run them.
        match MutexGuard::unlocked(state, || self.work.step_except(&[Lane::Relocate, Lane::Idle])) {
            Some(_) => Ok(()),
            None => Err(Error::Bug("waiting for background work that is not queued".into())),
        }
    }
}
