//! Resumes writes after a full disk, without a reopen of the store.
//!
//! After a failed append or sync, the end of the WAL is unknown: part or all of a refused batch
//! may be there. But memory still has every acknowledged write. So before the first new write, all
//! memtables are flushed and their SSTables are made durable, and the manifest then names a new
//! WAL as the start of replay. After that no write depends on the old WAL, and the store assigns
//! the sequence numbers of the refused batch again.
use super::{
    rotate::rotate_wal,
    visibility::wait_visible,
    writer::{WritePath, WriterState},
};
use crate::{Error, Event, Result, state::DbInner};
use std::sync::Arc;

impl WritePath {
    /// Restarts writes after a lack of space has stopped them. If the store has not stopped, does
    /// nothing. If the call returns an error, writes remain stopped.
    pub fn resume(&self, shared: &Arc<DbInner>) -> Result<()> {
        if shared.state.lock().failed.is_none() {
            return shared.check_writable(&shared.state.lock());
        }
        let mut leader = self.lead_exclusively(shared)?;
        if clear_failure(shared)? {
            shared.free_bytes(); // the compaction policy uses the last measurement
            start_fresh_wal(shared, leader.state()).inspect_err(|error| shared.fail(error))?;
            shared.options.notify(|| Event::Resumed);
            Ok(())
        } else {
            Ok(())
        }
    }
}

/// Waits until no job runs, and clears the failure of the store if it was a lack of space. Returns
/// false if another thread has already cleared the failure.
fn clear_failure(shared: &DbInner) -> Result<bool> {
    let mut state = shared.state.lock();
    while state.flush_scheduled || state.commit_scheduled || !state.compactions.is_empty() {
        if state.closed {
            return Err(Error::Closed);
        }
        shared.wait_for_change(&mut state)?;
    }
    let Some(first) = &state.failed else { return Ok(false) };
    if !first.is_no_space() || state.closed {
        return shared.check_writable(&state).map(|()| false);
    }
    if let Err(lost) = state.versions.committable() {
        // Some SSTables serve reads but could not be made durable. No new data may depend on these
        // SSTables, so the store stays stopped.
        drop(state);
        shared.fail(&lost);
        return Err(lost);
    }
    (state.failed, state.replacing_wal) = (None, true);
    shared.note_space_freed(&mut state);
    Ok(true)
}

/// Rotates to a new WAL, and waits until the store needs no older WAL.
pub fn start_fresh_wal(shared: &Arc<DbInner>, writer: &mut WriterState) -> Result<()> {
    shared.state.lock().replacing_wal = true;
    wait_visible(shared, writer.last)?;
    shared.reserve.allocate(&*shared.storage)?;
    rotate_wal(shared, writer)?;
    // Until this wait ends, no caller may sync WALs, because a sync of the old WAL would fail.
    shared.wait_until(|state| state.sealed == 0)?;
    shared.commit_storage()?;
    // This wait ends with a commit of pending edits to the manifest. It does not wait for
    // compactions, which may take hours.
    let (last, log) = (writer.last, writer.mem.log);
    shared.wait_until(|state| state.versions.durable_base() >= last && state.versions.durable_replay_from() >= log)?;
    shared.state.lock().replacing_wal = false;
    Ok(())
}
