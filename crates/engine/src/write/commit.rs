//! The life of a group: into the log, into the memtable, and in front of readers.
use super::{GroupStats, WriterState, group::LeaderGuard, resume};
use crate::{Error, Event, Result, state::DbInner, sync::spin_until};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_format::{SeqNo, batch::Batch};
use terrace_storage::BlockingScope;

/// A buffer for single operations is kept up to this size.
const REUSED_BATCH_BYTES_MAX: usize = 64 << 10;
/// A group of at least this size is worth passing the baton on for before its insert, even if nobody waits yet.
const LONG_INSERT_BYTES: usize = 64 << 10;
/// How often to look whether a long insert is over.
const LONG_INSERT_LOOK: Duration = Duration::from_micros(100);

impl WriterState {
    /// The last sequence before those of `batch`, and its last one.
    pub(super) fn sequences(&self, batch: &Batch) -> Result<(SeqNo, SeqNo)> {
        let last = self.last.plus(u64::from(batch.len()));
        // The last of all is no sequence of any write: an opening would refuse it.
        if last >= SeqNo::MAX {
            return Err(Error::Unsupported("all sequence numbers are used up; copy the store into a new one".into()));
        }
        Ok((self.last, last))
    }
}

/// Log, memtable, publish: the life of a group. A failure is the end of all writing, because what the log holds is then
/// unknown.
pub(super) fn commit(
    shared: &Arc<DbInner>,
    leader: &mut LeaderGuard<'_, Box<WriterState>>,
    batch: Batch,
    sync: bool,
) -> Result<SeqNo> {
    stop_on_error(shared, || write_group(shared, leader, batch, sync))
}

/// Does what must not be left half done: an error, or a panic of the comparator, stops the store.
pub(super) fn stop_on_error<T>(shared: &Arc<DbInner>, write: impl FnOnce() -> Result<T>) -> Result<T> {
    stop_on_panic(shared, write).inspect_err(|error| shared.fail(error))
}

/// Does what may be left half done only by a panic, of the comparator above all: that stops the store.
pub(super) fn stop_on_panic<T>(shared: &Arc<DbInner>, write: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(write)) {
        Ok(outcome) => outcome,
        Err(panic) => {
            shared.fail(&Error::Bug("a write panicked, or its comparator did, so what was written is unknown".into()));
            resume_unwind(panic)
        }
    }
}

fn write_group(
    shared: &Arc<DbInner>,
    leader: &mut LeaderGuard<'_, Box<WriterState>>,
    mut batch: Batch,
    sync: bool,
) -> Result<SeqNo> {
    let writer = leader.state();
    let (before, last) = writer.sequences(&batch)?;
    let mut head: &[u8] = &[];
    if !batch.is_empty() {
        batch.set_sequence(before.plus(1));
        head = append(shared, writer, &mut batch)?;
    }
    let mut began = None;
    if sync {
        let _blocking = (!batch.is_empty()).then(BlockingScope::new); // else it is for an idle store's sake, or for whoever waits by his own wish
        let started = shared.clock.now();
        shared.options.tell(|| Event::SyncBegun);
        writer.wal.sync(&shared.closed_wals, last)?;
        let sync_time = shared.clock.since(started);
        // The group will be back, and these have come meanwhile.
        let writers = 1 + leader.followers() + leader.queue_len();
        leader.state().last_group = GroupStats { writers, sync_time };
        began = Some(started);
    }
    leader.state().last = last;
    if !batch.is_empty() {
        insert(shared, leader, head, batch);
    }
    publish(shared, before, last)?;
    if let Some(began) = began {
        shared.advance_durable(last);
        shared.changed.notify_all();
        shared.notify_sync_ended(began);
    }
    Ok(last)
}

/// Hands `batch` to the log. If the disk is full, what waits to be durable is made so at once, and whoever is about to give space back is
/// waited for. Where the full log ends is unknown by then, so writing goes on in another one, as after a stop. It stops at once where
/// tables are going to point into that log: the log would have to be synced on a full disk.
fn append(shared: &Arc<DbInner>, writer: &mut WriterState, batch: &mut Batch) -> Result<&'static [u8]> {
    let full = match writer.wal.append(batch) {
        Err(full) if full.is_no_space() && !shared.separates_values && shared.may_free_space() => full,
        appended => return appended,
    };
    let appended = shared.retry_with_reserve(0, |reserve| {
        resume::start_fresh_wal(shared, writer)?;
        drop(reserve); // a batch in a log gives nothing back, and the next opening would miss it
        shared.reserve.allocate(&*shared.storage)?;
        writer.wal.append(batch)
    });
    appended.map_err(|still| if still.is_no_space() { full } else { still })
}

/// Inserts a group whose sequences are given away. With pipelined writes, and if somebody waits for it, the next group's
/// log goes on meanwhile.
fn insert(shared: &DbInner, leader: &mut LeaderGuard<'_, Box<WriterState>>, head: &[u8], batch: Batch) {
    let worthwhile = leader.queue_len() > 0 || batch.byte_len() >= LONG_INSERT_BYTES;
    if shared.options.pipelined_writes && worthwhile {
        let mem = leader.state().mem.clone();
        leader.hand_over();
        mem.insert_behind(head, &batch);
        return;
    }
    let writer = leader.state();
    writer.mem.insert_behind(head, &batch);
    if writer.reusable_batch.is_none() && batch.capacity() <= REUSED_BATCH_BYTES_MAX {
        writer.reusable_batch = Some(batch);
    }
}

/// Readers may see the writes up to `last`, once they may see those up to `before`: groups become visible in the order of
/// their sequences, whichever is inserted first.
pub(super) fn publish(shared: &DbInner, before: SeqNo, last: SeqNo) -> Result<()> {
    if shared.visible() < before {
        wait_visible(shared, before)?;
    }
    shared.visible.store(last.0, Ordering::Release);
    Ok(())
}

/// Waits until everything up to `seq` is inserted. That is a matter of microseconds, without I/O; an error if one of the
/// inserts panicked. A lack of space keeps no insert from ending, and is not for ever.
pub(super) fn wait_visible(shared: &DbInner, seq: SeqNo) -> Result<()> {
    let visible = || shared.visible() >= seq;
    if spin_until(visible) {
        return Ok(());
    }
    while !visible() {
        if let Some(first) = shared.state.lock().failed.as_ref().filter(|first| !first.is_no_space()) {
            return Err(Error::FailStopped(Arc::new(first.clone())));
        }
        thread::sleep(LONG_INSERT_LOOK);
    }
    Ok(())
}
