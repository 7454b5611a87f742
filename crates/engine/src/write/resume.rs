//! Resumes writes after a full disk, without a reopen of the store.
//!
//! After a failed append or sync, the end of the WAL is unknown: part or all of a refused batch
//! may be there. But memory still has every acknowledged write. So before the first new write, all
//! memtables are flushed and made durable, and the manifest then names a new WAL as the start of
//! replay. After that nothing depends on the old WAL, and the sequence numbers of the refused
//! batch are assigned again.
use super::{
    rotate::rotate_wal,
    visibility::wait_visible,
    writer::{WritePath, WriterState},
};
use crate::{Error, Event, Result, state::DbInner};
use std::sync::Arc;

impl WritePath {
    /// Restarts writes after a stop that a lack of space caused. If the store has not stopped,
    /// does nothing. If this returns an error, writes remain stopped.
    pub fn resume(&self, shared: &Arc<DbInner>) -> Result<()> {
        if shared.state.lock().failed.is_none() {
            return shared.check_writable(&shared.state.lock());
        }
        let mut leader = self.lead_exclusively(shared)?;
        if clear_failure(shared)? {
            start_fresh_wal(shared, leader.state()).inspect_err(|error| shared.fail(error))?;
            shared.options.notify(|| Event::Resumed);
            Ok(())
        } else {
            Ok(())
        }
    }
}

/// Waits until no job runs, and clears the failure if it was a lack of space. Returns false if
/// there is no failure any more.
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
        // There are SSTables that serve reads but could not be made durable. No new data may
        // depend on them.
        drop(state);
        shared.fail(&lost);
        return Err(lost);
    }
    (state.failed, state.replacing_wal) = (None, true);
    shared.note_space_freed(&mut state);
    Ok(true)
}

/// Continues in a new WAL, and waits until nothing needs an older WAL.
pub fn start_fresh_wal(shared: &Arc<DbInner>, writer: &mut WriterState) -> Result<()> {
    shared.state.lock().replacing_wal = true;
    wait_visible(shared, writer.last)?;
    shared.reserve.allocate(&*shared.storage)?;
    rotate_wal(shared, writer)?;
    // No sync for a caller may start before this wait ends, because a sync of the old WAL would
    // fail.
    shared.wait_until(|state| state.sealed == 0)?;
    shared.commit_storage()?;
    // This waits only for a commit to the manifest, and not for compactions, which may take hours.
    let (last, log) = (writer.last, writer.mem.log);
    shared.wait_until(|state| state.versions.durable_base() >= last && state.versions.durable_replay_from() >= log)?;
    shared.state.lock().replacing_wal = false;
    Ok(())
}
