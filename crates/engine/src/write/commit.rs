//! The life of a write group: append to the WAL, insert into the memtable, publish to readers.
use super::{
    group::LeaderGuard,
    resume,
    visibility::{publish, stop_on_error},
    writer::{GroupStats, WriterState},
};
use crate::{Event, Result, state::DbInner};
use std::sync::Arc;
use terrace_format::{SeqNo, batch::Batch};
use terrace_storage::BlockingScope;

/// Upper bound, in bytes, of the buffer kept for the next single operation.
const REUSED_BATCH_BYTES_MAX: usize = 64 << 10;
/// From this many bytes on a group hands the leadership over before its insert even if no writer
/// waits yet.
const LONG_INSERT_BYTES: usize = 64 << 10;

/// Commits one group: WAL, memtable, publish. An error stops the store, because the content of
/// the WAL is unknown then.
pub(super) fn commit(
    shared: &Arc<DbInner>,
    leader: &mut LeaderGuard<'_, Box<WriterState>>,
    batch: Batch,
    sync: bool,
) -> Result<SeqNo> {
    stop_on_error(shared, || write_group(shared, leader, batch, sync))
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
        // An empty batch syncs for the idle timer or for `wait_durable`, so no write is blocked.
        let _blocking = (!batch.is_empty()).then(BlockingScope::new);
        let started = shared.clock.now();
        shared.options.notify(|| Event::SyncBegin);
        writer.wal.sync(&shared.closed_wals, last)?;
        let sync_time = shared.clock.since(started);
        // The same group is likely to write again, together with the writers that queued up
        // meanwhile.
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
        shared.notify_sync_ended(shared.clock.since(began));
    }
    Ok(last)
}

/// Appends `batch` to the WAL. On a full disk it commits pending edits at once, waits for jobs
/// and readers that may free space, and tries again in a fresh WAL, since the end of the full one
/// is unknown (see [`resume`]). With value separation there is no retry: SSTables would point
/// into the full WAL, which would have to be synced on a full disk.
fn append(shared: &Arc<DbInner>, writer: &mut WriterState, batch: &mut Batch) -> Result<&'static [u8]> {
    let full = match writer.wal.append(batch) {
        Err(full) if full.is_no_space() && !shared.separates_values && shared.may_free_space() => full,
        appended => return appended,
    };
    let appended = shared.retry_with_reserve(0, |reserve| {
        resume::start_fresh_wal(shared, writer)?;
        drop(reserve); // a batch in a WAL frees no space, and the next open would need the reserve
        shared.reserve.allocate(&*shared.storage)?;
        writer.wal.append(batch)
    });
    appended.map_err(|still| if still.is_no_space() { full } else { still })
}

/// Inserts a group whose sequence numbers are assigned into the memtable. With
/// `pipelined_writes`, and if writers wait or the group is large, the leadership is handed over
/// first, so that the next group's WAL append overlaps with the insert.
fn insert(shared: &DbInner, leader: &mut LeaderGuard<'_, Box<WriterState>>, head: &[u8], batch: Batch) {
    let worthwhile = leader.queue_len() > 0 || batch.byte_len() >= LONG_INSERT_BYTES;
    if shared.options.pipelined_writes && worthwhile {
        let mem = leader.state().mem.clone();
        leader.hand_over();
        mem.insert_with_prefix(head, &batch);
        return;
    }
    let writer = leader.state();
    writer.mem.insert_with_prefix(head, &batch);
    if writer.reusable_batch.is_none() && batch.capacity() <= REUSED_BATCH_BYTES_MAX {
        writer.reusable_batch = Some(batch);
    }
}
