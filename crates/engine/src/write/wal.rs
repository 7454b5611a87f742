//! The write-ahead log: one log per memtable, and the order in which logs become durable.
//!
//! What survives a power cut must be a prefix of the history, so before a synced write is acknowledged *all* older live
//! logs are synced, oldest first. LevelDB syncs only the newest and can lose the tail of an older one.
use crate::{Result, closed_logs::ClosedLogs};
use terrace_format::LogId;
use terrace_storage::placement::LogWriter;

/// The active log's writer.
pub struct Wal {
    id: LogId,
    writer: Box<dyn LogWriter>,
    /// Something was appended since the last sync.
    dirty: bool,
}

impl Wal {
    /// Goes on in a fresh log.
    pub fn new(id: LogId, writer: Box<dyn LogWriter>) -> Wal {
        Wal { id, writer, dirty: false }
    }

    /// Its number, and its bytes so far.
    pub fn size(&self) -> (LogId, u64) {
        (self.id, self.writer.bytes())
    }

    /// Hands a record to the operating system.
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        self.dirty = true;
        Ok(self.writer.append(record)?)
    }

    /// Closes the active log and goes on in another.
    pub fn rotate(&mut self, id: LogId, writer: Box<dyn LogWriter>, closed: &ClosedLogs) {
        let old = std::mem::replace(self, Wal::new(id, writer));
        if old.dirty {
            closed.add(old.id, old.writer);
        }
    }

    /// Everything appended, here and to `closed`, survives a power cut.
    pub fn sync(&mut self, closed: &ClosedLogs) -> Result<()> {
        closed.sync()?;
        if self.dirty {
            self.writer.sync()?;
            self.dirty = false;
        }
        Ok(())
    }
}
