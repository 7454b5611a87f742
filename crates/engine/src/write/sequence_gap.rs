//! Sequence gaps: an ingest adds SSTables to the tree without a WAL, so there are sequence numbers
//! that no WAL contains.
use super::{
    rotate::{rotate_wal, seal_memtable},
    visibility::{stop_on_panic, wait_visible},
    writer::WritePath,
};
use crate::{Result, state::DbInner};
use std::sync::{Arc, atomic::Ordering};
use terrace_format::{LogId, SeqNo};

impl WritePath {
    /// Advances the last sequence number to `seq`. The function `install` adds SSTables with this
    /// sequence number to the live version. If a write has reached `seq` already, or if `install`
    /// returns false, the call changes nothing.
    ///
    /// No write runs during this call. When `install` is called, all earlier writes are in
    /// SSTables. When this call returns, the manifest covers these writes and the installed tables,
    /// so a WAL may begin after the gap (docs/durability.md, "How a log is replayed").
    ///
    /// The WAL is rotated for two reasons. First, a gap inside a WAL would end its replay for a
    /// reader that does not know the manifest of Terrace. Second, a reader that has an older view
    /// and a newer sequence number must find a memtable to which no writer adds entries.
    pub fn advance_sequence(
        &self,
        shared: &Arc<DbInner>,
        seq: SeqNo,
        install: impl FnOnce(LogId) -> Result<bool>,
    ) -> Result<()> {
        let mut leader = self.lead_exclusively(shared)?;
        let writer = leader.state();
        shared.check_writable(&shared.state.lock())?;
        if writer.last >= seq {
            return Ok(());
        }
        wait_visible(shared, writer.last)?;
        if !writer.is_empty() {
            seal_memtable(shared, writer)?;
        }
        shared.wait_until(|state| state.sealed == 0)?;
        if !stop_on_panic(shared, || install(writer.mem.log))? {
            return Ok(());
        }
        // The live version has the installed tables now. From here on no write may get a sequence
        // number up to `seq`, even if a later step of the ingest fails.
        writer.last = seq;
        shared.visible.store(seq.0, Ordering::Release);
        wait_manifest_covers(shared, seq).inspect_err(|error| shared.fail(error))?;
        shared.advance_durable(seq);
        // The ingest itself is complete. If the new WAL cannot be created, only the next write
        // fails.
        if let Err(error) = rotate_wal(shared, writer) {
            shared.fail(&error);
        }
        Ok(())
    }
}

/// Waits until the manifest covers every write up to `seq`.
pub fn wait_manifest_covers(shared: &Arc<DbInner>, seq: SeqNo) -> Result<()> {
    if shared.state.lock().versions.durable_base() >= seq {
        return Ok(());
    }
    shared.commit_storage()?;
    shared.wait_until(|state| state.versions.durable_base() >= seq)
}
