//! The writers of one store, and the state of the commit leader.
use super::{
    group::{JoinResult, LeaderGuard, Queue, WriteRequest},
    throttle_debt::ThrottleDebt,
    wal::Wal,
};
use crate::{Error, Options, Result, mem::MemTable, state::DbInner};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use terrace_format::{SeqNo, batch::Batch};

/// The writers of one store. At most one of them is the commit leader: see [`group`].
pub struct WritePath {
    pub queue: Queue<Box<WriterState>>,
    /// Writers that sync closed WALs before they join the queue.
    pub syncing_closed_wals: AtomicUsize,
}

/// The state that only the commit leader, or a flush that seals the memtable, may touch. It is
/// held during WAL I/O.
pub struct WriterState {
    pub wal: Wal,
    /// The last assigned sequence number. Ahead of the visible one while groups are being inserted.
    pub last: SeqNo,
    /// The active memtable, the same as in the view.
    pub mem: Arc<MemTable>,
    /// A buffer for the next single operation, so that it allocates nothing.
    pub reusable_batch: Option<Batch>,
    pub throttle_debt: ThrottleDebt,
    /// Write delay: seconds that each byte adds to the throttle debt.
    pub delay_per_byte: f64,
    /// The stall epoch for which `delay_per_byte`, and the admission without a look at the state,
    /// are valid.
    pub seen_epoch: Option<u64>,
    pub last_group: GroupStats,
    pub unlogged: UnloggedWrites,
    /// Whether the idle timer has stopped and the next write must start it.
    pub timer_stopped: bool,
}

/// Size of the last synced group and duration of its sync, from which the next leader derives how
/// long it waits for followers.
#[derive(Default)]
pub struct GroupStats {
    pub writers: usize,
    pub sync_time: Duration,
}

/// Unlogged writes in the active memtable, and those that no WAL covers.
#[derive(Default)]
pub struct UnloggedWrites {
    /// The active memtable takes unlogged writes, and its WAL stays empty.
    pub active: bool,
    /// The last unlogged sequence number, unless the manifest is known to cover it.
    pub last: Option<SeqNo>,
}

impl WritePath {
    /// A write path that continues after sequence number `last`, in `wal` and `mem`.
    pub fn new(wal: Wal, last: SeqNo, mem: Arc<MemTable>) -> WritePath {
        let writer = WriterState {
            wal,
            last,
            mem,
            reusable_batch: None,
            throttle_debt: ThrottleDebt::default(),
            delay_per_byte: 0.0,
            seen_epoch: None,
            last_group: GroupStats::default(),
            unlogged: UnloggedWrites::default(),
            timer_stopped: false,
        };
        WritePath { queue: Queue::new(Box::new(writer)), syncing_closed_wals: AtomicUsize::new(0) }
    }

    /// Waits in the queue for the leadership, without followers and without joining a group.
    pub fn lead_exclusively(&self, shared: &DbInner) -> Result<LeaderGuard<'_, Box<WriterState>>> {
        let mut leader = self.join_exclusively()?;
        leader.state().start_timer(shared);
        Ok(leader)
    }

    /// Stops the idle timer, unless there was a write after `newest`. The leader state orders this
    /// before the next write, which starts it again.
    pub fn stop_timer(&self, shared: &DbInner, newest: SeqNo) {
        let Ok(mut leader) = self.join_exclusively() else { return };
        let writer = leader.state();
        if writer.last == newest && !writer.timer_stopped {
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

    /// Returns whether no writer leads or syncs; a stalled writer counts as a leader.
    pub fn are_idle(&self) -> bool {
        self.queue.is_idle() && self.syncing_closed_wals.load(Ordering::Relaxed) == 0
    }
}

impl WriterState {
    /// Starts the idle timer if it has stopped.
    #[inline]
    pub fn start_timer(&mut self, shared: &DbInner) {
        if self.timer_stopped {
            self.timer_stopped = false;
            shared.work.start_timer();
        }
    }

    /// Returns the last sequence number before those of `batch`, and the last one of `batch`.
    pub fn sequences(&self, batch: &Batch) -> Result<(SeqNo, SeqNo)> {
        let last = self.last.plus(u64::from(batch.len()));
        // The largest sequence number is never assigned: recovery would refuse it.
        if last >= SeqNo::MAX {
            return Err(Error::Unsupported("all sequence numbers are used up; copy the store into a new one".into()));
        }
        Ok((self.last, last))
    }

    /// Returns whether the memtable or the WAL has reached its size.
    pub fn is_full(&self, options: &Options) -> bool {
        self.mem.charged_bytes() > options.write_buffer_size || self.wal.is_full()
    }
}
