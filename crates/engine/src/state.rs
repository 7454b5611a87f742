//! What the parts of the engine share, and the locks that guard it.
//!
//! ```text
//! lock order:  write core → manifest → control → (view, stats, snapshots: leaves)
//! write core   log writers and the next sequence; held during log I/O; readers never take it
//! manifest     the manifest's writer; held during its I/O; only who releases takes it: the job, or whoever needs the space
//! control      versions, running jobs, failure; never held during I/O
//! ```
//! Readers take one atomic load of the view and, for a snapshot, a leaf lock: nothing that anybody holds during I/O.
mod scheduling;
mod value_log_gc;

use crate::{
    Error, Event, Options, Result,
    clock::Clock,
    closed_wals::ClosedWals,
    compact::{
        claim::Busy,
        plan::{Plan, Policy},
        rate::Rate,
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

/// Who waits for background work looks again after so long: whether there is space may change without it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Guarded by the control lock.
pub struct DbState {
    /// Live and durable.
    pub versions: VersionSet,
    /// Compactions that run.
    pub compactions: Busy,
    /// A flush is queued or runs.
    pub flush_scheduled: bool,
    /// A release is queued or runs.
    pub commit_scheduled: bool,
    /// Held by whoever copies the tables of a version: none is given up meanwhile, or nobody would hear that it never got to the device.
    pub checkpoints: Arc<()>,
    /// Since when no table is being made.
    pub no_jobs_since: Option<Duration>,
    /// A table that has cost too many seeks.
    pub seek_hint: Option<(usize, TableId)>,
    /// What is done about garbage in the value log.
    pub gc: ValueLogGc,
    /// The first failure; writes and background work stop with it.
    pub failed: Option<Error>,
    /// The store is being closed: releases do not wait for their time.
    pub closing: bool,
    /// The store was closed.
    pub closed: bool,
}

/// The background jobs, handed in by `db`, so that what they share need not know them.
pub struct Jobs {
    /// The sealed memtables become a table.
    pub flush: fn(&Arc<DbInner>) -> Result<()>,
    /// A plan is carried out.
    pub compact: fn(&Arc<DbInner>, &Plan) -> Result<()>,
    /// Mature edits enter the manifest.
    pub commit_edits: fn(&Arc<DbInner>) -> Result<()>,
    /// The same for whoever needs the space that goes with it, beside that job.
    pub commit_edits_now: fn(&Arc<DbInner>) -> Result<()>,
    /// What is alive in the victims of the tail collector is put again.
    pub relocate: Box<Job>,
}

/// A job that has more than what all share.
type Job = dyn Fn(&Arc<DbInner>) -> Result<()> + Send + Sync;

/// One open store.
pub struct DbInner {
    /// As given at open.
    pub options: Options,
    /// Of user keys.
    pub order: KeyOrder,
    /// Where bytes live.
    pub storage: Arc<dyn Storage>,
    /// Features that the manifest must announce.
    pub requires: Vec<String>,
    /// Whether one of them is deletes of ranges.
    pub has_range_tombstones: bool,
    /// Whether what is stored for a value is not the value: then the placement knows it.
    pub separates_values: bool,
    /// Logs that this opening found to hold something which is no part of the history.
    pub torn_logs: u64,
    /// Files under `lost/` when it was opened.
    pub lost_files: u64,
    /// Which opened the store, and alone may use it.
    pub process: Process,
    /// Time.
    pub clock: Clock,
    /// Who runs jobs.
    pub work: Arc<Work>,
    /// Which.
    pub jobs: Jobs,
    /// Space for when there is none.
    pub reserve: Reserve,
    /// How fast compactions have written. A leaf lock.
    pub rate: Mutex<Rate>,
    /// What is merged when.
    pub policy: Box<dyn Policy>,
    /// Counters.
    pub stats: Counters,
    /// Read positions held.
    pub snapshots: Arc<Snapshots>,
    /// What readers see; replaced under the control lock.
    pub view: ArcSwap<View>,
    /// Logs that a sync must still reach.
    pub closed_wals: ClosedWals,
    /// Counts what may change what stands in writers' way: a new view, a release, a failure, the close. While it stands still, they need
    /// not take the control lock. Raised under that lock.
    pub stall_epoch: AtomicU64,
    /// How often space was given back.
    pub space_freed: AtomicU64,
    /// Jobs that wait for that.
    pub jobs_out_of_space: AtomicUsize,
    /// The last sequence readers may see.
    pub visible: AtomicU64,
    /// Every write up to here survives a power cut.
    pub durable: AtomicU64,
    /// Tasks that wait for it.
    pub waiters: Waiters,
    /// See the lock order above. `None` in a store opened for reading only.
    pub manifest: Mutex<Option<Manifest>>,
    /// See the lock order above.
    pub state: Mutex<DbState>,
    /// Signalled whenever control changes.
    pub changed: Condvar,
}

impl DbInner {
    /// Refuses a forked child, which has neither the threads of the process that opened the store nor its locks.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.process.is_current() { Ok(()) } else { Err(self.forked()) }
    }

    #[cold]
    fn forked(&self) -> Error {
        terrace_storage::Error::forked(self.storage.name(), self.process).into()
    }

    /// The last sequence readers may see.
    pub fn visible(&self) -> SeqNo {
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// Writes up to `seq` survive a power cut, if this placement promises such things.
    pub fn advance_durable(&self, seq: SeqNo) {
        if self.storage.promises() {
            self.durable.fetch_max(seq.0, Ordering::AcqRel);
        }
    }

    /// Wakes the tasks that wait for what is durable by now.
    pub fn wake_durable(&self) {
        self.waiters.wake(self.durable.load(Ordering::Acquire));
    }

    /// Wakes the tasks that wait for what a failure has made impossible. Like [`wake_durable`](DbInner::wake_durable) to be called
    /// without any lock, and without the baton: a waker may drop a store.
    pub fn wake_failed(&self) {
        if self.state.lock().failed.is_some() {
            self.waiters.wake(u64::MAX);
        }
    }

    /// Stops writes and background work. The first failure stays the reason, unless it was a lack of space, which can be
    /// cured, and this one cannot.
    pub fn fail(&self, error: &Error) {
        self.fail_and_end(error, |_| ());
    }

    /// As [`fail`](DbInner::fail), for a job that `ended` notes to be over. In one step: who waits for the end of all jobs to lift a
    /// stop must not lift it in between.
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
            self.options.tell(|| Event::Stopped { error: error.clone() });
        }
    }

    /// Tells the listener of the end of a sync that began when the clock said `began`.
    pub fn notify_sync_ended(&self, began: Duration) {
        let durable = self.durable.load(Ordering::Acquire);
        self.options.tell(|| Event::SyncEnded { durable, time: self.clock.since(began) });
    }

    /// Makes the next writer look at control.
    pub fn bump_stall_epoch(&self, _control: &DbState) {
        self.stall_epoch.fetch_add(1, Ordering::Release);
    }

    /// An error if writing is over.
    pub fn check_writable(&self, state: &DbState) -> Result<()> {
        match &state.failed {
            _ if state.closed => Err(Error::Closed),
            Some(first) => Err(Error::FailStopped(Arc::new(first.clone()))),
            None => Ok(()),
        }
    }

    /// Replaces the view. Call under the control lock.
    pub fn set_view(&self, state: &DbState, change: impl FnOnce(&View) -> View) {
        let next = change(&self.view.load());
        self.view.store(Arc::new(next));
        self.bump_stall_epoch(state);
    }

    /// Waits until `done`, running background steps where nobody else does. An error once the store has failed.
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

    /// Closed logs that are kept only until the tables that have their entries are durable.
    pub fn flushed_open_wals(&self, state: &DbState) -> usize {
        self.closed_wals.count_before(state.versions.replay_from())
    }

    /// Whether so many of those logs are open that no other may be closed before a commit has come.
    pub fn has_too_many_wals(&self, state: &DbState) -> bool {
        self.flushed_open_wals(state) / 2 >= self.storage.closed_logs_max()
    }

    /// Waits until one more memtable may wait for its flush.
    pub fn wait_to_seal(&self) -> Result<()> {
        let mut awaits_commit = None;
        self.wait_until(|state| {
            let too_many_wals = self.has_too_many_wals(state);
            awaits_commit = too_many_wals.then(|| self.storage.traffic().await_others());
            !too_many_wals && (self.view.load().sealed.len() as u64) + 1 < self.options.max_write_buffer_number
        })
    }

    /// One wait: for a signal, or by running a step of a manual executor.
    pub fn wait_for_change(&self, state: &mut MutexGuard<'_, DbState>) -> Result<()> {
        if !self.work.is_manual() {
            self.changed.wait_for(state, LOOK_AGAIN);
            return Ok(());
        }
        // Who waits may hold the baton, for which what puts again, or syncs, would wait.
        match MutexGuard::unlocked(state, || self.work.step_except(&[Lane::Relocate, Lane::Idle])) {
            Some(_) => Ok(()),
            None => Err(Error::Bug("waiting for background work that nobody has queued".into())),
        }
    }
}
