//! Writes without a log: they are in memory, and survive nothing until the memtable that has them is flushed.
//!
//! No log has their sequences, and replay takes a gap for the end of the history. So a memtable has either logged writes or
//! others, and a log that begins behind a gap counts once the manifest vouches for what is in it: whoever syncs waits for that
//! (docs/durability.md, "How a log is replayed").
use super::{
    WritePath, WriteRequest, WriterState,
    commit::{publish, stop_on_error, wait_visible},
    group::JoinResult,
    room::make_room,
    rotate::rotate_wal,
    sequence_gap::wait_manifest_covers,
};
use crate::{Error, Result, state::DbInner};
use std::sync::Arc;
use terrace_format::{SeqNo, batch::Batch, value_log::INLINE};

/// What the active memtable holds, and what no log has.
#[derive(Default)]
pub struct UnloggedWrites {
    /// The active memtable takes such writes, and its log stays empty.
    pub active: bool,
    /// The last sequence of all of them, unless the manifest is known to vouch for it.
    pub last: Option<SeqNo>,
}

impl WritePath {
    /// Writes `batch` without a log and returns the sequence of its last operation.
    pub fn write_unlogged(&self, shared: &Arc<DbInner>, mut batch: Batch) -> Result<SeqNo> {
        let mut leader = self.lead_exclusively()?;
        let writer = leader.state();
        shared.check_writable(&shared.state.lock())?;
        if batch.is_empty() {
            return Ok(writer.last);
        }
        make_room(shared, writer, batch.byte_len())?;
        if !writer.unlogged.active {
            wait_visible(shared, writer.last)?; // what is still being inserted may have the memtable, empty as it looks
            if !writer.mem.is_empty() {
                seal_memtable(shared, writer)?;
            }
        }
        let (before, last) = writer.sequences(&batch)?;
        writer.unlogged = UnloggedWrites { active: true, last: Some(last) };
        batch.set_sequence(before.plus(1));
        writer.last = last;
        let head = if shared.separates_values { INLINE } else { &[] };
        stop_on_error(shared, || {
            writer.mem.insert_behind(head, &batch);
            publish(shared, before, last)
        })?;
        Ok(last)
    }
}

/// Goes on in a new memtable and log, as soon as one more memtable may wait.
pub fn seal_memtable(shared: &Arc<DbInner>, writer: &mut WriterState) -> Result<()> {
    shared.wait_to_seal()?;
    rotate_wal(shared, writer)
}

/// A logged group comes behind such writes. It needs a log that begins behind them; if it is synced, the manifest has to vouch
/// for them first.
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
