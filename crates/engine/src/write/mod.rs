//! The write path, from the caller of a write to the readers that see it.
//!
//! ```text
//!  put(k1)       put(k2)      delete(k3)
//!     │             │             │          a synced write first syncs closed WALs
//!     ▼             ▼             ▼
//!  ┌─────────── writer queue ───────────┐   group::Queue::join
//!  │ leader │ follower │ follower │ ... │
//!  └────┬───────────────────────────────┘
//!       │  1. make_room           may slow down, stop, or seal the memtable and rotate the WAL
//!       │  2. collect_followers   append the followers' batches to the leader's batch
//!       │  3. Wal::append         one record for the whole group
//!       │  4. Wal::sync           once, if the leader asked for it
//!       ▼
//!   memtable insert ──►  publish: `visible` becomes the group's last sequence number
//!       │                (with pipelined writes the next leader starts at step 1 meanwhile)
//!       ▼
//!   LeaderGuard::complete         every follower returns with the group's result
//! ```
//!
//! Invariants:
//! - Only the commit leader uses [`WriterState`]: the WAL, the next sequence number and the active
//!   memtable. The leadership passes in the order of the queue.
//! - Write groups become visible in the order of their sequence numbers, in whatever order their
//!   inserts end.
//! - After an error since the start of the append, or a panic, the store is stopped, because the
//!   content of the WAL is unknown.
mod commit;
mod families;
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
mod visibility;
pub mod wal;
mod writer;

use crate::{Event, Result, state::DbInner};
use commit::commit;
pub use group::{ConditionalWrite, WriteCondition, WriteRequest};
use group::{JoinResult, LeaderGuard};
use room::make_room;
use rotate::{rotate_wal, seal_memtable};
pub use sequence_gap::wait_manifest_covers;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use terrace_format::{FamilyId, SeqNo, batch::Batch};
use terrace_storage::BlockingScope;
use visibility::{stop_on_error, wait_visible};
pub use writer::WritePath;
use writer::{GroupStats, WriterState};

impl WritePath {
    /// Writes `request`, alone or as part of a write group. Returns the sequence number of the last
    /// operation of the group. If the group has no operation, returns the last sequence number
    /// before the group. An empty batch with `sync` makes all earlier writes durable.
    pub fn write(&self, shared: &Arc<DbInner>, request: WriteRequest<'_>, sync: bool) -> Result<SeqNo> {
        if sync {
            let _counted = Counted::one_more(&self.syncing_closed_wals);
            sync_closed_wals(shared, &request)?;
        }
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

    fn lead(
        &self,
        shared: &Arc<DbInner>,
        leader: &mut LeaderGuard<'_, Box<WriterState>>,
        request: WriteRequest<'_>,
        sync: bool,
    ) -> Result<SeqNo> {
        let writer = leader.state();
        writer.start_timer(shared);
        if let WriteRequest::Conditional(write) = &request {
            wait_visible(shared, writer.last)?;
            write.condition.check(&Batch::new(), true)?;
        }
        let mut batch = match request {
            WriteRequest::Batch(batch) => batch,
            WriteRequest::Conditional(write) => write.batch,
            WriteRequest::Single(op) => {
                let mut batch = writer.reusable_batch.take().unwrap_or_default();
                batch.clear();
                batch.add(op);
                batch
            }
            WriteRequest::Exclusive => Batch::new(),
        };
        families::check_exist(shared, &batch)?;
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
        let last = leader.state().last;
        leader.collect_followers(&mut batch, sync, |write, group| {
            families::check_exist(shared, &write.batch)?;
            let Some(condition) = &write.condition else { return Ok(true) };
            wait_visible(shared, last)?;
            condition.check(group, false)
        });
        let writer = leader.state();
        // The leader has charged its own bytes to the throttle debt already, when it waited for
        // room. Now it charges the bytes of its followers.
        if batch.byte_len() > own_bytes {
            writer.throttle_debt.charge(writer.delay_per_byte * (batch.byte_len() - own_bytes) as f64);
        }
        commit(shared, leader, batch, sync)
    }

    /// Waits until as many writers are in the queue as the last synced write group had. The writers
    /// of that group are likely to write again now. Without this wait, every second sync would
    /// serve only one writer. The wait is at most `group_commit_wait_us`, and at most half of the
    /// time that the last sync took.
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

    /// Seals the active memtable, unless it is empty, and rotates the WAL. If too many memtables
    /// already wait for their flush, waits until one more may be sealed. Returns the sequence
    /// number of the last unlogged write, if the manifest is not known to cover it.
    pub fn seal(&self, shared: &Arc<DbInner>) -> Result<Option<SeqNo>> {
        let mut leader = self.lead_exclusively(shared)?;
        let writer = leader.state();
        shared.check_writable(&shared.state.lock())?;
        if !writer.is_empty() {
            shared.wait_to_seal()?;
            rotate_wal(shared, writer)?;
        }
        Ok(writer.unlogged.last)
    }
}

impl WritePath {
    /// Calls `change` between two write groups, at a moment when the manifest covers all earlier
    /// writes and every edit of column family `family`. The caller ensures that no compaction of
    /// the family starts during the call.
    pub fn settle_family(
        &self,
        shared: &Arc<DbInner>,
        family: FamilyId,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut leader = self.lead_exclusively(shared)?;
        let writer = leader.state();
        shared.check_writable(&shared.state.lock())?;
        // An earlier leader may still insert its group into a memtable that looks empty (pipelined
        // writes).
        wait_visible(shared, writer.last)?;
        if !writer.is_empty() {
            seal_memtable(shared, writer)?;
        }
        shared.wait_until(|state| state.sealed == 0)?;
        shared.commit_storage()?;
        // The leader waits only for pending edits of this column family. Compactions of other
        // families continue and add edits, so a wait for all edits might never end.
        let last = writer.last;
        shared.wait_until(|state| state.versions.durable_base() >= last && !state.versions.has_pending(family))?;
        change()
    }
}

/// Counts a writer in the referenced counter, until this value is dropped (even by a panic).
struct Counted<'a>(&'a AtomicUsize);

impl Counted<'_> {
    fn one_more(count: &AtomicUsize) -> Counted<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Syncs closed WALs before a synced write joins the queue. There may be dozens of closed WALs. If
/// a commit leader synced them, all other writers would have to wait. So the leader syncs only
/// those WALs that are closed after this call.
fn sync_closed_wals(shared: &Arc<DbInner>, request: &WriteRequest<'_>) -> Result<()> {
    let Some(newest) = shared.closed_wals.newest() else { return Ok(()) };
    shared.check_writable(&shared.state.lock())?;
    // The sync stops while the commit leader replaces a WAL after an error, because only the leader
    // knows when the older WALs are no longer used.
    let goes_on = || {
        let state = shared.state.lock();
        shared.check_writable(&state).is_ok() && !state.replacing_wal
    };
    if !goes_on() {
        return Ok(());
    }
    let _blocking = (!request.is_empty()).then(BlockingScope::new);
    let started = shared.clock.now();
    shared.options.notify(|| Event::SyncBegin);
    let synced = stop_on_error(shared, || shared.closed_wals.sync_to(newest, goes_on));
    match &synced {
        Ok(()) => shared.notify_sync_ended(shared.clock.since(started)),
        Err(_) => shared.wake_failed(),
    }
    synced
}
