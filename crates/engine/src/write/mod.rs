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
use rotate::change_log;
use std::{sync::Arc, thread, time::Duration};
use terrace_format::{SeqNo, batch::Batch};
use throttle_debt::ThrottleDebt;
use unlogged::Unlogged;
use wal::Wal;

/// The writers of one store. One leads at a time: see [`group`].
pub struct Writes {
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
    spare: Option<Batch>,
    owed: ThrottleDebt,
    /// Seconds that writers owe for each byte.
    pace: f64,
    /// The news that the pace, and the leave to go on, go by.
    seen: Option<u64>,
    pulse: Pulse,
    unlogged: Unlogged,
}

/// What the last synced group was like: how many writers come at once, and what a sync takes.
#[derive(Default)]
struct Pulse {
    writers: usize,
    sync_time: Duration,
}

impl Writes {
    /// Writing goes on behind `last`, into `wal` and `mem`.
    pub fn new(wal: Wal, last: SeqNo, mem: Arc<MemTable>) -> Writes {
        let core = WriterState {
            wal,
            last,
            mem,
            spare: None,
            owed: ThrottleDebt::default(),
            pace: 0.0,
            seen: None,
            pulse: Pulse::default(),
            unlogged: Unlogged::default(),
        };
        Writes { queue: Queue::new(Box::new(core)) }
    }

    /// Writes, alone or as part of a group, and returns the sequence of the last operation that was written with or
    /// before it. An empty synced batch makes everything before it durable.
    pub fn write(&self, shared: &Arc<DbInner>, own: WriteRequest<'_>, sync: bool) -> Result<SeqNo> {
        match self.queue.join(own, sync) {
            JoinResult::Done(outcome) => outcome,
            JoinResult::LeaderGuard(mut lead, own) => {
                let outcome = self.lead(shared, &mut lead, own, sync);
                let told = lead.tell(outcome);
                if told.is_err() {
                    shared.wake_failed();
                } else if sync {
                    shared.wake_durable();
                }
                told
            }
        }
    }

    fn lead(
        &self,
        shared: &Arc<DbInner>,
        lead: &mut LeaderGuard<'_, Box<WriterState>>,
        own: WriteRequest<'_>,
        sync: bool,
    ) -> Result<SeqNo> {
        let core = lead.baton();
        let mut batch = match own {
            WriteRequest::Many(batch) => batch,
            WriteRequest::One(op) => {
                let mut batch = core.spare.take().unwrap_or_default();
                batch.clear();
                batch.add(op);
                batch
            }
            WriteRequest::Alone => Batch::new(),
        };
        if batch.is_empty() {
            shared.check_writable(&shared.control.lock())?;
        } else {
            make_room(shared, core, batch.byte_len())?;
        }
        if lead.baton().unlogged.last.is_some() {
            unlogged::go_on_with_a_log(shared, lead.baton(), sync)?;
        }
        if sync {
            self.gather(shared, &lead.baton().pulse);
        }
        let own_bytes = batch.byte_len();
        lead.collect(&mut batch, sync);
        let core = lead.baton();
        core.owed.owe(core.pace * (batch.byte_len() - own_bytes) as f64); // who was taken along has paid nothing
        commit(shared, lead, batch, sync)
    }

    /// The writers whom the last sync served are about to come back: waits for them a little, lest every second sync serve
    /// one writer alone.
    fn gather(&self, shared: &DbInner, pulse: &Pulse) {
        let wait_max = Duration::from_micros(shared.options.group_commit_wait_us).min(pulse.sync_time / 2);
        if wait_max.is_zero() || self.queue.waiting() + 1 >= pulse.writers {
            return;
        }
        let end = shared.clock.now() + wait_max;
        while self.queue.waiting() + 1 < pulse.writers && shared.clock.now() < end {
            thread::yield_now();
        }
    }

    /// Whether nobody writes, or waits for what keeps writes up.
    pub fn are_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Seals the active memtable, if it has anything, and starts a new log.
    pub fn seal(&self, shared: &Arc<DbInner>) -> Result<()> {
        let JoinResult::LeaderGuard(mut lead, _) = self.queue.join(WriteRequest::Alone, false) else {
            return Err(Error::Bug("somebody who wanted the baton alone was taken along".into()));
        };
        let core = lead.baton();
        shared.check_writable(&shared.control.lock())?;
        if core.mem.is_empty() {
            return Ok(());
        }
        shared.wait_to_seal()?;
        change_log(shared, core)
    }
}
