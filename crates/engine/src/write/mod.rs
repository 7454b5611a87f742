//! The write path: join a group ([`group`]), make room ([`room`]), append to the log, insert into the memtable, publish ([`commit`](mod@commit)).
mod commit;
pub mod group;
#[cfg(all(test, loom))]
mod interleavings;
mod resume;
mod room;
mod rotate;
mod sequence_gap;
mod stall;
mod tail_gc;
mod throttle_debt;
mod unlogged;
pub mod wal;

use crate::{Error, Result, mem::MemTable, state::DbInner};
use commit::commit;
pub use group::WriteRequest;
use group::{JoinResult, LeaderGuard, Queue};
use room::make_room;
use rotate::rotate_wal;
use std::{sync::Arc, thread, time::Duration};
use terrace_format::{SeqNo, batch::Batch};
use throttle_debt::ThrottleDebt;
use unlogged::UnloggedWrites;
use wal::Wal;

/// The writers of one store. One leads at a time: see [`group`].
pub struct WritePath {
    queue: Queue<Box<WriterState>>,
}

/// The baton: what the leader of a write group, or a flush that seals, has to itself during its I/O.
struct WriterState {
    wal: Wal,
    /// The last sequence given away. Ahead of the visible one while groups are being inserted.
    last: SeqNo,
    /// The active memtable, as in the view.
    mem: Arc<MemTable>,
    /// A buffer for the next single operation.
    reusable_batch: Option<Batch>,
    throttle_debt: ThrottleDebt,
    /// Seconds that writers owe for each byte.
    delay_per_byte: f64,
    /// The news that the pace, and the leave to go on, go by.
    seen_epoch: Option<u64>,
    last_group: GroupStats,
    unlogged: UnloggedWrites,
}

/// What the last synced group was like: how many writers come at once, and what a sync takes.
#[derive(Default)]
struct GroupStats {
    writers: usize,
    sync_time: Duration,
}

impl WritePath {
    /// Writing goes on behind `last`, into `wal` and `mem`.
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
        };
        WritePath { queue: Queue::new(Box::new(writer)) }
    }

    /// Writes, alone or as part of a group, and returns the sequence of the last operation that was written with or
    /// before it. An empty synced batch makes everything before it durable.
    pub fn write(&self, shared: &Arc<DbInner>, request: WriteRequest<'_>, sync: bool) -> Result<SeqNo> {
        match self.queue.join(request, sync) {
            JoinResult::Done(outcome) => outcome,
            JoinResult::Leader(mut leader, request) => {
                let outcome = self.lead(shared, &mut leader, request, sync);
                let told = leader.complete(outcome);
                if told.is_err() {
                    shared.wake_failed();
                } else if sync {
                    shared.wake_durable();
                }
                told
            }
        }
    }

    /// Waits for the leadership without joining a group.
    fn lead_exclusively(&self) -> Result<LeaderGuard<'_, Box<WriterState>>> {
        match self.queue.join(WriteRequest::Exclusive, false) {
            JoinResult::Leader(leader, _) => Ok(leader),
            JoinResult::Done(_) => Err(Error::Bug("an exclusive write request joined another writer's group".into())),
        }
    }

    fn lead(
        &self,
        shared: &Arc<DbInner>,
        leader: &mut LeaderGuard<'_, Box<WriterState>>,
        request: WriteRequest<'_>,
        sync: bool,
    ) -> Result<SeqNo> {
        let writer = leader.state();
        let mut batch = match request {
            WriteRequest::Batch(batch) => batch,
            WriteRequest::Single(op) => {
                let mut batch = writer.reusable_batch.take().unwrap_or_default();
                batch.clear();
                batch.add(op);
                batch
            }
            WriteRequest::Exclusive => Batch::new(),
        };
        if batch.is_empty() {
            shared.check_writable(&shared.state.lock())?;
        } else {
            make_room(shared, writer, batch.byte_len())?;
        }
        if leader.state().unlogged.last.is_some() {
            unlogged::resume_logging(shared, leader.state(), sync)?;
        }
        if sync {
            self.wait_for_followers(shared, &leader.state().last_group);
        }
        let own_bytes = batch.byte_len();
        leader.collect_followers(&mut batch, sync);
        let writer = leader.state();
        writer.throttle_debt.charge(writer.delay_per_byte * (batch.byte_len() - own_bytes) as f64); // who was taken along has paid nothing
        commit(shared, leader, batch, sync)
    }

    /// The writers whom the last sync served are about to come back: waits for them a little, lest every second sync serve
    /// one writer alone.
    fn wait_for_followers(&self, shared: &DbInner, last_group: &GroupStats) {
        let wait_max = Duration::from_micros(shared.options.group_commit_wait_us).min(last_group.sync_time / 2);
        if wait_max.is_zero() || self.queue.queue_len() + 1 >= last_group.writers {
            return;
        }
        let end = shared.clock.now() + wait_max;
        while self.queue.queue_len() + 1 < last_group.writers && shared.clock.now() < end {
            thread::yield_now();
        }
    }

    /// Whether nobody writes, or waits for what keeps writes up.
    pub fn are_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Seals the active memtable, if it has anything, and starts a new log.
    pub fn seal(&self, shared: &Arc<DbInner>) -> Result<()> {
        let mut leader = self.lead_exclusively()?;
        let writer = leader.state();
        shared.check_writable(&shared.state.lock())?;
        if writer.mem.is_empty() {
            return Ok(());
        }
        shared.wait_to_seal()?;
        rotate_wal(shared, writer)
    }
}
