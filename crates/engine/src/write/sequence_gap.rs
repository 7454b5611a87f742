//! Writes that reach tables without a log: the history jumps ahead over sequences that no log has.
use super::{
    WritePath, WriteRequest,
    commit::{stop_on_panic, wait_visible},
    group::JoinResult,
    rotate::rotate_wal,
    unlogged::seal_memtable,
};
use crate::{Error, Result, state::DbInner};
use std::sync::{Arc, atomic::Ordering};
use terrace_format::{LogId, SeqNo};

impl WritePath {
    /// Lets the history go on behind `seq`, with what `install` adds to the version under that sequence. Nothing is done if it has
    /// got there already, or `install` answers false.
    ///
    /// Nobody writes meanwhile. Everything written before is in tables when `install` is called, and the manifest says so, and
    /// what was installed, when this returns: so a log may begin behind the gap (docs/durability.md, "How a log is replayed"). One does:
    /// a gap within a log would end it for whoever does not read our manifest; and a reader who has a view from before, and a
    /// sequence from behind the jump, has a memtable in which nothing is written any more.
    pub fn advance_sequence(
        &self,
        shared: &Arc<DbInner>,
        seq: SeqNo,
        install: impl FnOnce(LogId) -> Result<bool>,
    ) -> Result<()> {
        let mut leader = self.lead_exclusively()?;
        let writer = leader.state();
        shared.check_writable(&shared.state.lock())?;
        if writer.last >= seq {
            return Ok(());
        }
        wait_visible(shared, writer.last)?;
        if !writer.mem.is_empty() {
            seal_memtable(shared, writer)?;
        }
        shared.wait_until(|_| shared.view.load().sealed.is_empty())?;
        if !stop_on_panic(shared, || install(writer.mem.log))? {
            return Ok(());
        }
        // The version has it: from here on nobody may write below `seq`, whatever goes wrong.
        writer.last = seq;
        shared.visible.store(seq.0, Ordering::Release);
        wait_manifest_covers(shared, seq).inspect_err(|error| shared.fail(error))?;
        shared.advance_durable(seq);
        // What was asked for is done. Without a log it is the next writer that is refused.
        if let Err(error) = rotate_wal(shared, writer) {
            shared.fail(&error);
        }
        Ok(())
    }
}

/// Returns once the manifest vouches for everything up to `seq`.
pub fn wait_manifest_covers(shared: &Arc<DbInner>, seq: SeqNo) -> Result<()> {
    shared.storage.commit()?;
    shared.wait_until(|state| state.versions.durable_base() >= seq)
}
