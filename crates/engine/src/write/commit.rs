//! The stages of a write group (the writes of one group commit). The commit leader appends the
//! group to the WAL, inserts it into the memtable, and makes it visible to readers.
use super::{
    families::{self, InsertTargets},
    group::LeaderGuard,
    resume,
    visibility::{publish, stop_on_error},
    writer::{GroupStats, WriterState},
};
use crate::{Event, Result, state::DbInner};
use std::sync::Arc;
use terrace_format::{SeqNo, batch::Batch};
use terrace_storage::BlockingScope;

/// Maximum size, in bytes, of a batch buffer that is kept for the next write of a single
/// operation.
const REUSED_BATCH_BYTES_MAX: usize = 64 << 10;
/// The commit leader of a write group of at least this many bytes hands the leadership over before
/// it inserts the group into the memtable, even if no writer waits yet.
const LONG_INSERT_BYTES: usize = 64 << 10;

/// Commits one write group: appends it to the WAL, inserts it into the memtable, and makes it
/// visible to readers. After an error the content of the WAL is unknown, so the error stops the
/// store.
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
        // The idle timer and `wait_durable` sync with an empty batch. Such a sync blocks no write,
        // so it does not count as a blocking sync.
        let _blocking = (!batch.is_empty()).then(BlockingScope::new);
        let started = shared.clock.now();
        shared.options.notify(|| Event::SyncBegin);
        writer.wal.sync(&shared.closed_wals, last)?;
        let sync_time = shared.clock.since(started);
        // The next leader may wait for this many writers: the writers of this group are likely to
        // write again soon, together with the writers that joined the queue during the sync.
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

/// Appends `batch` to the WAL. If the disk is full, the function commits pending edits immediately
/// and waits for jobs and readers that may free space. Then it appends the batch to a new WAL,
/// because the end of the full WAL is unknown (see [`resume`]). With value separation there is no
/// second attempt: SSTables would point into the full WAL, which would then have to be synced on a
/// full disk.
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

/// Inserts a write group, whose sequence numbers are assigned, into the memtable. With
/// `pipelined_writes`, the leader hands the leadership over before the insert if writers wait or
/// the group is large. The next leader then appends its group to the WAL while this insert runs.
fn insert(shared: &DbInner, leader: &mut LeaderGuard<'_, Box<WriterState>>, head: &[u8], batch: Batch) {
    let worthwhile = leader.queue_len() > 0 || batch.byte_len() >= LONG_INSERT_BYTES;
    if shared.options.pipelined_writes && worthwhile {
        let targets = InsertTargets::of(shared, leader.state(), &batch);
        leader.hand_over();
        targets.insert(head, &batch);
        return;
    }
    let writer = leader.state();
    families::insert(shared, writer, head, &batch);
    if writer.reusable_batch.is_none() && batch.capacity() <= REUSED_BATCH_BYTES_MAX {
        writer.reusable_batch = Some(batch);
    }
}
