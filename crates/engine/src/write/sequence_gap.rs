//! Writes that reach tables without a log: the history jumps ahead over sequences that no log has.
use super::{
    WriteRequest, Writes,
    commit::{or_fail_on_panic, wait_visible},
    group::JoinResult,
    rotate::change_log,
    unlogged::make_way,
};
use crate::{Error, Result, state::DbInner};
use std::sync::{Arc, atomic::Ordering};
use terrace_format::{LogId, SeqNo};

impl Writes {
    /// Lets the history go on behind `seq`, with what `install` adds to the version under that sequence. Nothing is done if it has
    /// got there already, or `install` answers false.
    ///
    /// Nobody writes meanwhile. Everything written before is in tables when `install` is called, and the manifest says so, and
    /// what was installed, when this returns: so a log may begin behind the gap (docs/durability.md, "How a log is replayed"). One does:
    /// a gap within a log would end it for whoever does not read our manifest; and a reader who has a view from before, and a
    /// sequence from behind the jump, has a memtable in which nothing is written any more.
    pub fn jump(&self, shared: &Arc<DbInner>, seq: SeqNo, install: impl FnOnce(LogId) -> Result<bool>) -> Result<()> {
        let JoinResult::LeaderGuard(mut lead, _) = self.queue.join(WriteRequest::Alone, false) else {
            return Err(Error::Bug("somebody who wanted the baton alone was taken along".into()));
        };
        let core = lead.baton();
        shared.check_writable(&shared.control.lock())?;
        if core.last >= seq {
            return Ok(());
        }
        wait_visible(shared, core.last)?;
        if !core.mem.is_empty() {
            make_way(shared, core)?;
        }
        shared.wait_until(|_| shared.view.load().sealed.is_empty())?;
        if !or_fail_on_panic(shared, || install(core.mem.log))? {
            return Ok(());
        }
        // The version has it: from here on nobody may write below `seq`, whatever goes wrong.
        core.last = seq;
        shared.visible.store(seq.0, Ordering::Release);
        vouch(shared, seq).inspect_err(|error| shared.fail(error))?;
        shared.durable_up_to(seq);
        // What was asked for is done. Without a log it is the next writer that is refused.
        if let Err(error) = change_log(shared, core) {
            shared.fail(&error);
        }
        Ok(())
    }
}

/// Returns once the manifest vouches for everything up to `seq`.
pub fn vouch(shared: &Arc<DbInner>, seq: SeqNo) -> Result<()> {
    shared.storage.commit()?;
    shared.wait_until(|control| control.versions.durable_base() >= seq)
}
