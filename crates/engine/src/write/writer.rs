//! The writers of one store, and the state that only the commit leader may use.
use super::{
    group::{JoinResult, LeaderGuard, Queue, WriteRequest},
    throttle_debt::ThrottleDebt,
    wal::Wal,
};
use crate::{Error, Options, Result, locks::LockTable, mem::MemTable, state::DbInner, stats::StallCause};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use terrace_format::{FamilyId, SeqNo, batch::Batch};

/// The writers of one store. At most one of them is the commit leader; see [`group`].
pub struct WritePath {
    pub queue: Queue<Box<WriterState>>,
    /// The locks of pessimistic transactions.
    pub locks: LockTable,
    /// Held while a column family is created or dropped. It is taken before every other lock.
    pub family_changes: Mutex<()>,
    /// Number of writers that are syncing closed WALs before they join the queue.
    pub syncing_closed_wals: AtomicUsize,
}

/// The state that only the commit leader, or a flush that seals the memtable, may use. Its owner
/// may do WAL I/O while it has the state.
pub struct WriterState {
    pub wal: Wal,
    /// The last assigned sequence number. It is larger than the last visible one while write groups
    /// are being inserted.
    pub last: SeqNo,
    /// The active memtable of the default column family, which is the same as in the view.
    pub mem: Arc<MemTable>,
    /// The active memtables of other column families, as in the view. The first write to a family
    /// after a rotation creates its memtable.
    pub families: BTreeMap<FamilyId, Arc<MemTable>>,
    /// A buffer that the next single operation uses again, so that it allocates nothing.
    pub reusable_batch: Option<Batch>,
    pub throttle_debt: ThrottleDebt,
    /// The write delay: the number of seconds that each byte adds to the throttle debt.
    pub delay_per_byte: f64,
    /// The cause of the delay.
    pub delay_cause: StallCause,
    /// The stall epoch at which `delay_per_byte` was computed. As long as the epoch has not
    /// changed, a write is admitted without a check of the state.
    pub seen_epoch: Option<u64>,
    pub last_group: GroupStats,
    pub unlogged: UnloggedWrites,
    /// Whether the idle timer has stopped and the next write must start it.
    pub timer_stopped: bool,
}

/// The number of writers in the last synced write group, and the duration of its sync. From these
/// numbers the next leader computes how long it waits for followers.
#[derive(Default)]
pub struct GroupStats {
    pub writers: usize,
    pub sync_time: Duration,
}

/// Whether the active memtable takes unlogged writes, and up to which sequence number unlogged
/// writes are in no WAL.
#[derive(Default)]
pub struct UnloggedWrites {
    /// Whether the active memtable takes unlogged writes. Its WAL then stays empty.
    pub active: bool,
    /// The sequence number of the last unlogged write; `None` once the manifest is known to cover
    /// that write.
    pub last: Option<SeqNo>,
}

impl WritePath {
    /// Makes a write path that continues after the sequence number `last`, with `wal` and `mem`.
    pub fn new(wal: Wal, last: SeqNo, mem: Arc<MemTable>) -> WritePath {
        let writer = WriterState {
            wal,
            last,
            mem,
            families: BTreeMap::new(),
            reusable_batch: None,
            throttle_debt: ThrottleDebt::default(),
            delay_per_byte: 0.0,
            delay_cause: StallCause::default(),
            seen_epoch: None,
            last_group: GroupStats::default(),
            unlogged: UnloggedWrites::default(),
            timer_stopped: false,
        };
        WritePath {
            queue: Queue::new(Box::new(writer)),
            locks: LockTable::default(),
            family_changes: Mutex::new(()),
            syncing_closed_wals: AtomicUsize::new(0),
        }
    }

    /// Waits in the queue until the caller is the leader. The caller accepts no followers and joins
    /// no write group.
    pub fn lead_exclusively(&self, shared: &DbInner) -> Result<LeaderGuard<'_, Box<WriterState>>> {
        let mut leader = self.join_exclusively()?;
        leader.state().start_timer(shared);
        Ok(leader)
    }

    /// Stops the idle timer, unless there was a write after `newest` or `may_stop` returns false.
    /// The caller's leadership orders the stop before the next write, which starts the timer again.
    pub fn stop_timer(&self, shared: &DbInner, newest: SeqNo, may_stop: impl FnOnce() -> bool) {
        let Ok(mut leader) = self.join_exclusively() else { return };
        let writer = leader.state();
        if writer.last == newest && may_stop() {
            shared.work.stop_timer();
            writer.timer_stopped = true;
        }
    }

    fn join_exclusively(&self) -> Result<LeaderGuard<'_, Box<WriterState>>> {
        match self.queue.join(WriteRequest::Exclusive, false) {
            JoinResult::Leader(leader, _) => Ok(leader),
            JoinResult::Done(_) => Err(Error::Bug("an exclusive write request joined another writer's group".into())),
        }
    }

    /// Returns whether no writer leads or syncs. A stalled writer counts as a leader.
    pub fn are_idle(&self) -> bool {
        self.queue.is_idle() && self.syncing_closed_wals.load(Ordering::Relaxed) == 0
    }
}

impl WriterState {
    /// Starts the idle timer if it has stopped.
    #[inline]
    pub fn start_timer(&mut self, shared: &DbInner) {
        if self.timer_stopped {
            // If the idle timer could not be started because the system refused a thread, the next
            // commit leader tries again.
            self.timer_stopped = !shared.work.start_timer();
        }
    }

    /// Returns the last sequence number before `batch`, and the last sequence number of `batch`.
    #[inline]
    pub fn sequences(&self, batch: &Batch) -> Result<(SeqNo, SeqNo)> {
        let last = self.last.plus(u64::from(batch.len()));
        // The largest sequence number is never assigned, because recovery would refuse it.
        if last >= SeqNo::MAX {
            return Err(Error::Unsupported("all sequence numbers are used up; copy the store into a new one".into()));
        }
        Ok((self.last, last))
    }

    /// Returns whether the memtables together, or the WAL, have reached their size.
    #[inline]
    pub fn is_full(&self, options: &Options) -> bool {
        let families = if self.families.is_empty() { 0 } else { self.family_bytes() };
        self.mem.charged_bytes() + families > options.write_buffer_size || self.wal.is_full()
    }

    #[cold]
    fn family_bytes(&self) -> u64 {
        self.families.values().map(|mem| mem.charged_bytes()).sum()
    }

    /// Returns whether all active memtables are empty.
    pub fn is_empty(&self) -> bool {
        self.mem.is_empty() && self.families.is_empty()
    }
}
