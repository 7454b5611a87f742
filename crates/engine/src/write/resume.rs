//! Going on after a full disk, without opening anew.
//!
//! Where an append or a sync failed, the end of the log is unknown: a refused batch may be there, in part or whole. Memory
//! still has everything that was acknowledged. So all of it is flushed and made durable, and the manifest moves on to a
//! fresh log, before the first write: then nothing depends on the old log any more, and what a refused batch had taken of
//! sequences is given again.
use super::{WritePath, WriteRequest, WriterState, commit::wait_visible, group::JoinResult, rotate::rotate_wal};
use crate::{Error, Event, Result, state::DbInner};
use std::sync::Arc;

impl WritePath {
    /// Ends a stop for want of space; does nothing if there is none. On error writes stay stopped.
    pub fn resume(&self, shared: &Arc<DbInner>) -> Result<()> {
        if shared.state.lock().failed.is_none() {
            return shared.check_writable(&shared.state.lock());
        }
        let mut leader = self.lead_exclusively()?;
        if clear_failure(shared)? {
            start_fresh_wal(shared, leader.state()).inspect_err(|error| shared.fail(error))?;
            shared.options.tell(|| Event::Resumed);
            Ok(())
        } else {
            Ok(())
        }
    }
}

/// Takes the stop away once no job runs, if space was all that there was a lack of. False if there is none any more.
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
    if let Err(lost) = state.versions.releasable() {
        // Tables that could not be made durable serve reads: nothing can be built on them.
        drop(state);
        shared.fail(&lost);
        return Err(lost);
    }
    state.failed = None;
    state.gc.relieve();
    Ok(true)
}

/// Moves on to a fresh log, with nothing left that needs an older one.
pub fn start_fresh_wal(shared: &Arc<DbInner>, writer: &mut WriterState) -> Result<()> {
    wait_visible(shared, writer.last)?;
    shared.reserve.allocate(&*shared.storage)?;
    rotate_wal(shared, writer)?;
    // No sync that anybody waits for is asked for before this is over: the old log would fail it.
    shared.wait_until(|_| shared.view.load().sealed.is_empty())?;
    shared.storage.commit()?;
    // Not for compactions: there may be hours of them.
    let (last, log) = (writer.last, writer.mem.log);
    shared.wait_until(|state| state.versions.durable_base() >= last && state.versions.durable_replay_from() >= log)
}
