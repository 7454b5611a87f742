//! Closed WALs: nothing more is appended to them. A closed WAL must still be synced as long as no
//! durable SSTable has its entries.
//!
//! The writer of a closed WAL stays open until these SSTables are durable. It must not stay open
//! longer: while a deleted file is open, the kernel still writes the pages of the file to the
//! device.
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
    /// Adds the WAL that was active until now.
    pub fn add(&self, id: LogId, writer: Box<dyn LogWriter>) {
        self.wals.lock().push((id, writer.into()));
    }

    /// Takes the WALs before `replay_from`, whose entries are in durable SSTables. A drop of the
    /// result closes the files of these WALs, which is I/O.
    #[must_use = "it is dropped under no lock"]
    pub fn take_obsolete(&self, replay_from: LogId) -> Vec<Arc<dyn LogWriter>> {
        let mut wals = self.wals.lock();
        let kept = wals.iter().position(|(id, _)| *id >= replay_from).unwrap_or(wals.len());
        wals.drain(..kept).map(|(_, writer)| writer).collect()
    }

    /// Returns the number of closed WALs before `replay_from`.
    pub fn count_before(&self, replay_from: LogId) -> usize {
        self.wals.lock().partition_point(|(id, _)| *id < replay_from)
    }

    /// Returns the number of the newest closed WAL.
    pub fn newest(&self) -> Option<LogId> {
        self.wals.lock().last().map(|(id, _)| *id)
    }

    /// Syncs all closed WALs, oldest first. If a sync fails, the later WALs are left as they are.
    pub fn sync(&self) -> Result<()> {
        self.sync_to(LogId(u64::MAX - 1), || true)
    }

    /// Syncs the closed WALs up to WAL `last`, oldest first, as long as `goes_on` returns true
    /// before each sync. If a sync fails, the later WALs are left as they are. An error is ignored
    /// if the WAL became obsolete during its sync.
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
