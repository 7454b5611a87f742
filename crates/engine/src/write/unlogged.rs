//! Writes without a log: they are in memory, and survive nothing until the memtable that has them is flushed.
//!
//! No log has their sequences, and replay takes a gap for the end of the history. So a memtable has either logged writes or
//! others, and a log that begins behind a gap counts once the manifest vouches for what is in it: whoever syncs waits for that
//! (docs/durability.md, "How a log is replayed").
use super::{
    WriteRequest, WriterState, Writes,
    commit::{or_fail, publish, wait_visible},
    group::JoinResult,
    room::make_room,
    rotate::change_log,
    sequence_gap::vouch,
};
use crate::{Error, Result, state::DbInner};
use std::sync::Arc;
use terrace_format::{SeqNo, batch::Batch, value_log::INLINE};

/// What the active memtable holds, and what no log has.
#[derive(Default)]
pub struct Unlogged {
    /// The active memtable takes such writes, and its log stays empty.
    pub open: bool,
    /// The last sequence of all of them, unless the manifest is known to vouch for it.
    pub last: Option<SeqNo>,
}

impl Writes {
    /// Writes `batch` without a log and returns the sequence of its last operation.
    pub fn write_unlogged(&self, shared: &Arc<DbInner>, mut batch: Batch) -> Result<SeqNo> {
        let JoinResult::LeaderGuard(mut lead, _) = self.queue.join(WriteRequest::Alone, false) else {
            return Err(Error::Bug("somebody who wanted the baton alone was taken along".into()));
        };
        let core = lead.baton();
        shared.check_writable(&shared.control.lock())?;
        if batch.is_empty() {
            return Ok(core.last);
        }
        make_room(shared, core, batch.byte_len())?;
        if !core.unlogged.open {
            wait_visible(shared, core.last)?; // what is still being inserted may have the memtable, empty as it looks
            if !core.mem.is_empty() {
                make_way(shared, core)?;
            }
        }
        let (before, last) = core.sequences(&batch)?;
        core.unlogged = Unlogged { open: true, last: Some(last) };
        batch.set_sequence(before.plus(1));
        core.last = last;
        let head = if shared.values_apart { INLINE } else { &[] };
        or_fail(shared, || {
            core.mem.insert_behind(head, &batch);
            publish(shared, before, last)
        })?;
        Ok(last)
    }
}

/// Goes on in a new memtable and log, as soon as one more memtable may wait.
pub fn make_way(shared: &Arc<DbInner>, core: &mut WriterState) -> Result<()> {
    shared.wait_to_seal()?;
    change_log(shared, core)
}

/// A logged group comes behind such writes. It needs a log that begins behind them; if it is synced, the manifest has to vouch
/// for them first.
pub fn go_on_with_a_log(shared: &Arc<DbInner>, core: &mut WriterState, sync: bool) -> Result<()> {
    if core.unlogged.open {
        make_way(shared, core)?;
    }
    let Some(last) = core.unlogged.last.filter(|_| sync) else { return Ok(()) };
    shared.wait_until(|control| control.versions.base() >= last)?;
    vouch(shared, last)?;
    core.unlogged.last = None;
    Ok(())
}
