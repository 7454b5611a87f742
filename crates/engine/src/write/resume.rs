//! Resuming after a full disk, without reopening the store.
//!
//! Where an append or a sync failed, the end of the WAL is unknown: a refused batch may be there
//! in part or whole. Memory still has every acknowledged write. So all memtables are flushed and
//! made durable, and the manifest moves on to a fresh WAL, before the first write. Then nothing
//! depends on the old WAL, and the sequence numbers of a refused batch are assigned again.
use super::{
    rotate::rotate_wal,
    visibility::wait_visible,
    writer::{WritePath, WriterState},
};
use crate::{Error, Event, Result, state::DbInner};
use std::sync::Arc;

impl WritePath {
    /// Ends a stop caused by lack of space; does nothing if the store has not stopped. After an
    /// error writes stay stopped.
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

/// Clears the failure once no job runs, if it was a lack of space. Returns false if there is no
/// failure any more.
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
        // SSTables that could not be made durable serve reads: nothing may be built on them.
        drop(state);
        shared.fail(&lost);
        return Err(lost);
    }
    (state.failed, state.replacing_wal) = (None, true);
    shared.note_space_freed(&mut state);
    Ok(true)
}

/// Moves on to a fresh WAL and waits until nothing needs an older one.
pub fn start_fresh_wal(shared: &Arc<DbInner>, writer: &mut WriterState) -> Result<()> {
    shared.state.lock().replacing_wal = true;
    wait_visible(shared, writer.last)?;
    shared.reserve.allocate(&*shared.storage)?;
    rotate_wal(shared, writer)?;
    // No foreground sync may start before this is over: the old WAL would fail it.
    shared.wait_until(|_| shared.view.load().sealed.is_empty())?;
    shared.commit_storage()?;
    // Waits for the manifest only, not for compactions, which may take hours.
    let (last, log) = (writer.last, writer.mem.log);
    shared.wait_until(|state| state.versions.durable_base() >= last && state.versions.durable_replay_from() >= log)?;
    shared.state.lock().replacing_wal = false;
    Ok(())
}
