//! Closed WALs: WALs to which the engine appends no more records. A closed WAL must still be
//! synced as long as its entries are in no durable SSTable.
//!
//! A closed WAL keeps its file open until SSTables with all of its entries are durable. It must
//! not keep the file open longer, because the kernel still writes the pages of a deleted file to
//! the device while the file is open.
use crate::Result;
use parking_lot::Mutex;
use std::sync::Arc;
use terrace_format::LogId;
use terrace_storage::placement::LogWriter;

/// The writers of closed WALs that have unsynced bytes, oldest first.
#[derive(Default)]
pub struct ClosedWals {
    wals: Mutex<Vec<(LogId, Arc<dyn LogWriter>)>>, // a leaf lock; no I/O under it
    syncing: Mutex<()>,                            // held during syncs, so that no WAL is synced twice
}

impl ClosedWals {
    /// Adds the WAL `id`, which was the active WAL until now.
    pub fn add(&self, id: LogId, writer: Box<dyn LogWriter>) {
        self.wals.lock().push((id, writer.into()));
    }

    /// Removes from the list the WALs with numbers below `replay_from`, whose entries are all in
    /// durable SSTables, and returns them. The caller must drop the result without holding a lock,
    /// because the drop closes files, which is I/O.
    #[must_use = "it is dropped under no lock"]
    pub fn take_obsolete(&self, replay_from: LogId) -> Vec<Arc<dyn LogWriter>> {
        let mut wals = self.wals.lock();
        let kept = wals.iter().position(|(id, _)| *id >= replay_from).unwrap_or(wals.len());
        wals.drain(..kept).map(|(_, writer)| writer).collect()
    }

    /// Returns the number of closed WALs whose number is below `replay_from`.
    pub fn count_before(&self, replay_from: LogId) -> usize {
        self.wals.lock().partition_point(|(id, _)| *id < replay_from)
    }

    /// Returns the number of the newest closed WAL, if there is one.
    pub fn newest(&self) -> Option<LogId> {
        self.wals.lock().last().map(|(id, _)| *id)
    }

    /// Syncs all closed WALs, oldest first. If a sync fails, the WALs after the failed one are not
    /// synced.
    pub fn sync(&self) -> Result<()> {
        self.sync_to(LogId(u64::MAX - 1), || true)
    }

    /// Syncs the closed WALs up to WAL `last`, oldest first. Calls `goes_on` before each sync and
    /// stops when `goes_on` returns false. If a sync fails, the WALs after the failed one are not
    /// synced. A sync error of a WAL is ignored if the WAL became obsolete during the sync.
    pub fn sync_to(&self, last: LogId, goes_on: impl Fn() -> bool) -> Result<()> {
        let _one_at_a_time = self.syncing.lock();
        loop {
            let oldest = self.wals.lock().first().cloned();
            let Some((id, writer)) = oldest.filter(|(id, _)| *id <= last) else { return Ok(()) };
            if !goes_on() {
                return Ok(());
            }
            let synced = writer.sync();
            if synced.is_err() && !self.wals.lock().iter().any(|(listed, _)| *listed == id) {
                continue;
            }
            synced?;
            drop(self.take_obsolete(LogId(id.0 + 1)));
        }
    }
}
