//! Going on after a full disk, without opening anew.
//!
//! Where an append or a sync failed, the end of the log is unknown: a refused batch may be there, in part or whole. Memory
//! still has everything that was acknowledged. So all of it is flushed and made durable, and the manifest moves on to a
//! fresh log, before the first write: then nothing depends on the old log any more, and what a refused batch had taken of
//! sequences is given again.
use super::{WriteRequest, WriterState, Writes, commit::wait_visible, group::JoinResult, rotate::change_log};
use crate::{Error, Event, Result, state::DbInner};
use std::sync::Arc;

impl Writes {
    /// Ends a stop for want of space; does nothing if there is none. On error writes stay stopped.
    pub fn resume(&self, shared: &Arc<DbInner>) -> Result<()> {
        if shared.control.lock().failed.is_none() {
            return shared.check_writable(&shared.control.lock());
        }
        let JoinResult::LeaderGuard(mut lead, _) = self.queue.join(WriteRequest::Alone, false) else {
            return Err(Error::Bug("somebody who wanted the baton alone was taken along".into()));
        };
        if lift_stop(shared)? {
            start_over(shared, lead.baton()).inspect_err(|error| shared.fail(error))?;
            shared.options.tell(|| Event::Resumed);
            Ok(())
        } else {
            Ok(())
        }
    }
}

/// Takes the stop away once no job runs, if space was all that there was a lack of. False if there is none any more.
fn lift_stop(shared: &DbInner) -> Result<bool> {
    let mut control = shared.control.lock();
    while control.flushing || control.releasing || !control.busy.is_empty() {
        if control.closed {
            return Err(Error::Closed);
        }
        shared.wait_for_change(&mut control)?;
    }
    let Some(first) = &control.failed else { return Ok(false) };
    if !first.is_no_space() || control.closed {
        return shared.check_writable(&control).map(|()| false);
    }
    if let Err(lost) = control.versions.releasable() {
        // Tables that could not be made durable serve reads: nothing can be built on them.
        drop(control);
        shared.fail(&lost);
        return Err(lost);
    }
    control.failed = None;
    control.collecting.relieve();
    Ok(true)
}

/// Moves on to a fresh log, with nothing left that needs an older one.
pub fn start_over(shared: &Arc<DbInner>, core: &mut WriterState) -> Result<()> {
    wait_visible(shared, core.last)?;
    shared.reserve.take(&*shared.storage)?;
    change_log(shared, core)?;
    // No sync that anybody waits for is asked for before this is over: the old log would fail it.
    shared.wait_until(|_| shared.view.load().sealed.is_empty())?;
    shared.storage.commit()?;
    // Not for compactions: there may be hours of them.
    let (last, log) = (core.last, core.mem.log);
    shared
        .wait_until(|control| control.versions.durable_base() >= last && control.versions.durable_replay_from() >= log)
}
