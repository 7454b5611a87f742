//! Unlogged writes: writes that skip the WAL. If the process ends before their memtable is
//! flushed, they are lost.
//!
//! No WAL contains the sequence numbers of unlogged writes, and replay treats such a gap as the
//! end of the history. Therefore there are two rules (docs/durability.md, "How a log is
//! replayed"):
//!
//! - A memtable contains either logged writes or unlogged writes.
//! - A WAL that begins after a gap is replayed only if the manifest covers the writes in the gap.
//!   So a synced write waits until the manifest covers all earlier unlogged writes.
use super::{
    families::{check_exist, insert},
    group::{QueuedWrite, WriteRequest},
    room::make_room,
    rotate::seal_memtable,
    sequence_gap::wait_manifest_covers,
    visibility::{publish, stop_on_error, wait_visible},
    writer::{UnloggedWrites, WritePath, WriterState},
};
use crate::{Result, state::DbInner};
use std::sync::Arc;
use terrace_format::{SeqNo, batch::Batch, value_log::INLINE};

impl WritePath {
    /// Writes `request` without a WAL. Returns the sequence number of its last operation.
    pub fn write_without_wal(&self, shared: &Arc<DbInner>, request: WriteRequest<'_>) -> Result<SeqNo> {
        let QueuedWrite { mut batch, condition, .. } = request.into_queued(false);
        let mut leader = self.lead_exclusively(shared)?;
        let writer = leader.state();
        shared.check_writable(&shared.state.lock())?;
        if batch.is_empty() {
            return Ok(writer.last);
        }
        check_exist(shared, &batch)?;
        if let Some(condition) = condition {
            wait_visible(shared, writer.last)?;
            condition.check(&Batch::new(), true)?;
        }
        make_room(shared, writer, batch.byte_len())?;
        if !writer.unlogged.active {
            // An earlier leader may still insert its group into this memtable, although the
            // memtable looks empty (pipelined writes).
            wait_visible(shared, writer.last)?;
            if !writer.is_empty() {
                seal_memtable(shared, writer)?;
            }
        }
        let (before, last) = writer.sequences(&batch)?;
        writer.unlogged = UnloggedWrites { active: true, last: Some(last) };
        batch.set_sequence(before.plus(1));
        writer.last = last;
        let head = if shared.separates_values { INLINE } else { &[] };
        stop_on_error(shared, || {
            insert(shared, writer, head, &batch);
            publish(shared, before, last)
        })?;
        Ok(last)
    }
}

/// Prepares a write group with a WAL that follows unlogged writes. The WAL of the group must begin
/// after the unlogged writes. If the group is synced, the manifest must cover the unlogged writes
/// first.
pub fn resume_logging(shared: &Arc<DbInner>, writer: &mut WriterState, sync: bool) -> Result<()> {
    if writer.unlogged.active {
        seal_memtable(shared, writer)?;
    }
    let Some(last) = writer.unlogged.last.filter(|_| sync) else { return Ok(()) };
    shared.wait_until(|state| state.versions.base() >= last)?;
    wait_manifest_covers(shared, last)?;
    writer.unlogged.last = None;
    Ok(())
}
