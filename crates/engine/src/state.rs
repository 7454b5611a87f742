//! What the parts of the engine share, and the locks that guard it.
//!
//! ```text
//! lock order:  write core → manifest → control → (view, stats, snapshots: leaves)
//! write core   log writers and the next sequence; held during log I/O; readers never take it
//! manifest     the manifest's writer; held during its I/O; only who releases takes it: the job, or whoever needs the space
//! control      versions, running jobs, failure; never held during I/O
//! ```
//! Readers take one atomic load of the view and, for a snapshot, a leaf lock: nothing that anybody holds during I/O.
mod collecting;

use crate::{
    Error, Event, Options, Result,
    clock::Clock,
    closed_logs::ClosedLogs,
    compact::{
        claim::Busy,
        collect::Collecting,
        leveled, lull, pace,
        plan::{Limits, Plan, Policy, Situation},
        rate::Rate,
    },
    read::{scan::Upkeep, snapshot::Snapshots, view::View},
    reserve::Reserve,
    stats::Counters,
    version::{
        KeyRange,
        set::{Manifest, VersionSet},
    },
    waiters::Waiters,
    work::{Lane, Work},
};
use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use terrace_format::{KeyOrder, SeqNo, TableForm, TableId};
use terrace_storage::{Awaited, placement::Placement};

/// Who waits for background work looks again after so long: whether there is space may change without it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Guarded by the control lock.
pub struct Control {
    /// Live and durable.
    pub versions: VersionSet,
    /// Compactions that run.
    pub busy: Busy,
    /// A flush is queued or runs.
    pub flushing: bool,
    /// A release is queued or runs.
    pub releasing: bool,
    /// Held by whoever copies the tables of a version: none is given up meanwhile, or nobody would hear that it never got to the device.
    pub copies: Arc<()>,
    /// Since when no table is being made.
    pub calm_since: Option<Duration>,
    /// A table that has cost too many seeks.
    pub seek_hint: Option<(usize, TableId)>,
    /// What is done about garbage in the value log.
    pub collecting: Collecting,
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
    pub flush: fn(&Arc<Shared>) -> Result<()>,
    /// A plan is carried out.
    pub compact: fn(&Arc<Shared>, &Plan) -> Result<()>,
    /// Mature edits enter the manifest.
    pub release: fn(&Arc<Shared>) -> Result<()>,
    /// The same for whoever needs the space that goes with it, beside that job.
    pub release_now: fn(&Arc<Shared>) -> Result<()>,
    /// What is alive in the victims of the tail collector is put again.
    pub put_again: Box<Job>,
}

/// A job that has more than what all share.
type Job = dyn Fn(&Arc<Shared>) -> Result<()> + Send + Sync;

/// One open store.
pub struct Shared {
    /// As given at open.
    pub options: Options,
    /// Of user keys.
    pub order: KeyOrder,
    /// Where bytes live.
    pub placement: Arc<dyn Placement>,
    /// Features that the manifest must announce.
    pub requires: Vec<String>,
    /// Whether one of them is deletes of ranges.
    pub deletes_ranges: bool,
    /// Whether what is stored for a value is not the value: then the placement knows it.
    pub values_apart: bool,
    /// Logs that this opening found to hold something which is no part of the history.
    pub torn_logs: u64,
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
    pub closed_logs: ClosedLogs,
    /// Counts what may change what stands in writers' way: a new view, a release, a failure, the close. While it stands still, they need
    /// not take the control lock. Raised under that lock.
    pub news: AtomicU64,
    /// How often space was given back.
    pub given_back: AtomicU64,
    /// Jobs that wait for that.
    pub starving: AtomicUsize,
    /// The last sequence readers may see.
    pub visible: AtomicU64,
    /// Every write up to here survives a power cut.
    pub durable: AtomicU64,
    /// Tasks that wait for it.
    pub waiters: Waiters,
    /// See the lock order above. `None` in a store opened for reading only.
    pub manifest: Mutex<Option<Manifest>>,
    /// See the lock order above.
    pub control: Mutex<Control>,
    /// Signalled whenever control changes.
    pub changed: Condvar,
}

impl Shared {
    /// The last sequence readers may see.
    pub fn visible(&self) -> SeqNo {
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// Writes up to `seq` survive a power cut, if this placement promises such things.
    pub fn durable_up_to(&self, seq: SeqNo) {
        if self.placement.promises() {
            self.durable.fetch_max(seq.0, Ordering::AcqRel);
        }
    }

    /// Wakes the tasks that wait for what is durable by now.
    pub fn wake_durable(&self) {
        self.waiters.wake(self.durable.load(Ordering::Acquire));
    }

    /// Wakes the tasks that wait for what a failure has made impossible. Like [`wake_durable`](Shared::wake_durable) to be called
    /// without any lock, and without the baton: a waker may drop a store.
    pub fn wake_failed(&self) {
        if self.control.lock().failed.is_some() {
            self.waiters.wake(u64::MAX);
        }
    }

    /// Stops writes and background work. The first failure stays the reason, unless it was a lack of space, which can be
    /// cured, and this one cannot.
    pub fn fail(&self, error: &Error) {
        self.fail_ending(error, |_| ());
    }

    /// As [`fail`](Shared::fail), for a job that `ended` notes to be over. In one step: who waits for the end of all jobs to lift a
    /// stop must not lift it in between.
    fn fail_ending(&self, error: &Error, ended: impl FnOnce(&mut Control)) {
        let mut control = self.control.lock();
        ended(&mut control);
        let counts = control.failed.as_ref().is_none_or(|first| first.is_no_space() && !error.is_no_space());
        if counts {
            control.failed = Some(error.clone());
        }
        self.tell_writers(&control);
        self.changed.notify_all();
        drop(control);
        if counts {
            self.options.tell(|| Event::Stopped { error: error.clone() });
        }
    }

    /// Tells the listener of the end of a sync that began when the clock said `began`.
    pub fn tell_synced(&self, began: Duration) {
        let durable = self.durable.load(Ordering::Acquire);
        self.options.tell(|| Event::SyncEnded { durable, time: self.clock.now() - began });
    }

    /// Makes the next writer look at control.
    pub fn tell_writers(&self, _control: &Control) {
        self.news.fetch_add(1, Ordering::Release);
    }

    /// An error if writing is over.
    pub fn check_writable(&self, control: &Control) -> Result<()> {
        match &control.failed {
            _ if control.closed => Err(Error::Closed),
            Some(first) => Err(Error::FailStopped(Arc::new(first.clone()))),
            None => Ok(()),
        }
    }

    /// Replaces the view. Call under the control lock.
    pub fn set_view(&self, control: &Control, change: impl FnOnce(&View) -> View) {
        let next = change(&self.view.load());
        self.view.store(Arc::new(next));
        self.tell_writers(control);
    }

    /// Sizes for policies.
    pub fn limits(&self) -> Limits {
        let Options { table_bytes, mut level_base_entries, .. } = self.options;
        let level_base_bytes = self.options.level_1_bytes();
        if self.placement.shape().tables != TableForm::Directory {
            level_base_entries = 0; // nobody counts them
        }
        let Options { l0_compact_runs, l0_least_percent, l0_merge_runs, least_overlap, levels_fit, .. } = self.options;
        Limits {
            table_bytes,
            level_base_bytes,
            levels_fit,
            level_base_entries,
            l0_compact_runs,
            l0_pressing_runs: self.options.l0_pressing_runs(),
            l0_least_percent,
            l0_merge_runs,
            least_overlap,
        }
    }

    /// Bytes that lie above their levels' sizes, and with level 0 those that compactions have yet to merge.
    pub fn debt(&self) -> (u64, u64) {
        let held = self.view.load().version.held();
        let debt = self.limits().debt(&held);
        (debt, debt.saturating_add(held[0]))
    }

    /// Bytes that the disk has left, where that should make work hurry: not where commits come by themselves, which cannot. I/O, so
    /// not to be called under a lock.
    pub fn free_bytes(&self) -> Option<u64> {
        if self.placement.is_patient() { None } else { self.placement.free_bytes() }
    }

    /// Hands a policy what it looks at.
    pub fn situated<T>(&self, control: &Control, look: impl FnOnce(&Situation<'_>) -> T) -> T {
        look(&Situation {
            order: &self.order,
            version: control.versions.live(),
            busy: &control.busy,
            pointers: control.versions.pointers(),
            limits: &self.limits(),
            spares: control.versions.spares(),
            seek_hint: control.seek_hint,
        })
    }

    /// The most urgent compaction that may start now.
    pub fn next_plan(&self, control: &Control) -> Option<Plan> {
        self.situated(control, |situation| self.policy.plan(situation))
    }

    /// The level into which a flush of these keys may go. While a compaction runs, its outputs may yet lie anywhere between
    /// its inputs, so only level 0 is safe; while one waits to be released, staying in level 0 keeps the flush free to be
    /// released before it (docs/durability.md).
    pub fn flush_level(&self, control: &Control, smallest: &[u8], largest: &[u8]) -> usize {
        if !control.busy.is_empty() || control.versions.compaction_pending() {
            return 0;
        }
        let range = KeyRange { from: Some(smallest), to: Some(largest) };
        self.situated(control, |situation| leveled::level_for_flush(situation, &range))
    }

    /// Starts whatever background work is due. Call under the control lock, after every change.
    pub fn schedule(self: &Arc<Self>, control: &mut Control) {
        self.changed.notify_all();
        if self.view.load().mem.is_none() || control.failed.is_some() || control.closed {
            return;
        }
        control.busy.lull.look(self.visible().0);
        if !control.flushing && !self.view.load().sealed.is_empty() {
            control.flushing = true;
            self.submit(Lane::Flush, "flush", self.jobs.flush, |control| control.flushing = false);
        }
        while control.busy.len() < self.compaction_threads(control, self.options.compactions_max)
            && let Some(plan) = self.next_plan(control)
        {
            self.start_compaction(control, plan);
        }
        self.collect(control);
        let busy = control.flushing || !control.busy.is_empty();
        control.calm_since = control.calm_since.or_else(|| Some(self.clock.now())).filter(|_| !busy);
        if !control.releasing && control.versions.pending() > 0 {
            control.releasing = true;
            self.submit(Lane::Durability, "release", self.jobs.release, |control| control.releasing = false);
        }
    }

    /// What waits for a lull may have become due, as `told` tells it.
    pub fn rest(self: &Arc<Self>, told: impl FnOnce(&mut lull::Lull)) {
        let mut control = self.control.lock();
        if !control.closing {
            told(&mut control.busy.lull);
            self.schedule(&mut control);
        }
    }

    /// Threads that compactions get now, of the `most` that an option grants.
    pub fn compaction_threads(&self, control: &Control, most: u64) -> usize {
        let l0_runs = control.versions.live().levels[0].runs.len() as u64;
        pace::threads(&self.options, most, l0_runs, control.busy.lull.is_quiet())
    }

    /// Begins `plan`, which must not meet a running compaction.
    pub fn start_compaction(self: &Arc<Self>, control: &mut Control, plan: Plan) {
        debug_assert!(control.busy.admits(&self.order, &plan));
        control.busy.begin(&self.order, &plan);
        if control.seek_hint.is_some_and(|(_, id)| plan.upper.iter().any(|table| table.meta.id == id)) {
            control.seek_hint = None;
        }
        let ended = plan.clone();
        let job = move |shared: &Arc<Shared>| {
            let moved = shared.moves_values(&shared.control.lock());
            match (shared.jobs.compact)(shared, &plan) {
                Err(error) if plan.only_collects => shared.collection_failed(&plan, error),
                Err(full) if full.is_no_space() && moved => {
                    shared.starve(&mut shared.control.lock());
                    (shared.jobs.compact)(shared, &plan)
                }
                outcome => outcome,
            }
        };
        self.submit(Lane::Compact, "compact", job, move |control| control.busy.end(&ended));
    }

    /// Queues a job whose failure, or panic, stops the store. `ended` notes in control that a failed one is over; others
    /// do so themselves.
    pub fn submit(
        self: &Arc<Self>,
        lane: Lane,
        name: &'static str,
        job: impl Fn(&Arc<Shared>) -> Result<()> + Send + 'static,
        ended: impl FnOnce(&mut Control) + Send + 'static,
    ) {
        let shared = self.clone();
        self.work.submit(lane, name, move || {
            let _awaited = matches!(lane, Lane::Flush | Lane::Compact).then(Awaited::new);
            let own = usize::from(matches!(lane, Lane::Flush | Lane::Compact));
            let outcome = catch_unwind(AssertUnwindSafe(|| shared.with_relief(own, || job(&shared))));
            let bug = |_| Err(Error::Bug(format!("job {name} panicked")));
            if let Err(error) = outcome.unwrap_or_else(bug) {
                shared.fail_ending(&error, ended);
                shared.wake_failed();
            }
        });
    }

    /// Waits until `done`, running background steps where nobody else does. An error once the store has failed.
    pub fn wait_until(&self, mut done: impl FnMut(&mut Control) -> bool) -> Result<()> {
        let mut control = self.control.lock();
        loop {
            if done(&mut control) {
                return Ok(());
            }
            self.check_writable(&control)?;
            self.wait_for_change(&mut control)?;
        }
    }

    /// One wait: for a signal, or by running a step of a manual executor.
    pub fn wait_for_change(&self, control: &mut MutexGuard<'_, Control>) -> Result<()> {
        if !self.work.is_manual() {
            self.changed.wait_for(control, LOOK_AGAIN);
            return Ok(());
        }
        // Who waits may hold the baton, for which what puts again would wait.
        match MutexGuard::unlocked(control, || self.work.step_but(Lane::Collect)) {
            Some(_) => Ok(()),
            None => Err(Error::Bug("waiting for background work that nobody has queued".into())),
        }
    }

    /// Notes that a table has used up its seeks.
    pub fn note_worn(self: &Arc<Self>, level: usize, table: TableId) {
        if self.options.seek_compaction && level + 1 < terrace_format::LEVELS {
            self.wish_for(level, table);
        }
    }

    /// Has a table of `level` merged into the next as soon as nothing is more urgent.
    pub fn wish_for(self: &Arc<Self>, level: usize, table: TableId) {
        let mut control = self.control.lock();
        control.seek_hint = Some((level, table));
        self.schedule(&mut control);
    }
}

impl Upkeep for Shared {
    fn sought_enough(self: Arc<Self>, oldest: TableId) {
        self.wish_for(0, oldest);
    }

    fn worn(self: Arc<Self>, level: usize, table: TableId) {
        self.note_worn(level, table);
    }
}
