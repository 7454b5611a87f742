//! Logs that take no more records but may have to be made durable yet, because no durable table has their entries.
//!
//! Their writers are kept open until then and no longer: a file that is removed while it is open goes on being written to
//! the device, for nobody.
use crate::Result;
use parking_lot::Mutex;
use std::sync::Arc;
use terrace_format::LogId;
use terrace_storage::placement::LogWriter;

/// Writers of closed logs with an unsynced tail, oldest first. A leaf lock; no I/O under it.
#[derive(Default)]
pub struct ClosedWals(Mutex<Vec<(LogId, Arc<dyn LogWriter>)>>);

impl ClosedWals {
    /// The log that was active until now.
    pub fn add(&self, id: LogId, writer: Box<dyn LogWriter>) {
        self.0.lock().push((id, writer.into()));
    }

    /// Durable tables have what is in logs before `replay_from`. Dropping what is returned closes their files, which is I/O.
    #[must_use = "it is dropped under no lock"]
    pub fn take_obsolete(&self, replay_from: LogId) -> Vec<Arc<dyn LogWriter>> {
        let mut wals = self.0.lock();
        let kept = wals.iter().position(|(id, _)| *id >= replay_from).unwrap_or(wals.len());
        wals.drain(..kept).map(|(_, writer)| writer).collect()
    }

    /// How many there are before `replay_from`.
    pub fn count_before(&self, replay_from: LogId) -> usize {
        self.0.lock().partition_point(|(id, _)| *id < replay_from)
    }

    /// Makes them durable, oldest first; after an error the rest is left as it is.
    pub fn sync(&self) -> Result<()> {
        loop {
            let Some((id, writer)) = self.0.lock().first().cloned() else { return Ok(()) };
            writer.sync()?;
            drop(self.take_obsolete(LogId(id.0 + 1)));
        }
    }
}
