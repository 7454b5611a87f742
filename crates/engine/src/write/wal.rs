//! The write-ahead log: one log per memtable, and the order in which logs become durable.
//!
//! What survives a power cut must be a prefix of the history, so before a synced write is acknowledged *all* older live
//! logs are synced, oldest first. LevelDB syncs only the newest and can lose the tail of an older one.
use crate::Result;
use terrace_format::LogId;
use terrace_storage::placement::LogWriter;

struct Live {
    id: LogId,
    writer: Box<dyn LogWriter>,
    /// Something was appended since the last sync.
    dirty: bool,
}

/// The live logs' writers.
pub struct Wal {
    /// Closed logs with an unsynced tail, oldest first.
    older: Vec<Live>,
    active: Live,
}

impl Wal {
    /// Goes on in a fresh log.
    pub fn new(id: LogId, writer: Box<dyn LogWriter>) -> Wal {
        Wal { older: Vec::new(), active: Live { id, writer, dirty: false } }
    }

    /// Hands a record to the operating system.
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        self.active.dirty = true;
        Ok(self.active.writer.append(record)?)
    }

    /// Closes the active log and goes on in another. Logs before `replay_from` are let go.
    pub fn rotate(&mut self, id: LogId, writer: Box<dyn LogWriter>, replay_from: LogId) {
        self.older.retain(|log| log.id >= replay_from);
        let closed = std::mem::replace(&mut self.active, Live { id, writer, dirty: false });
        if closed.dirty {
            self.older.push(closed);
        }
    }

    /// Everything appended survives a power cut. Logs before `replay_from` are no longer needed: their entries are in
    /// durable tables.
    pub fn sync(&mut self, replay_from: LogId) -> Result<()> {
        self.older.retain(|log| log.id >= replay_from);
        for log in &self.older {
            log.writer.sync()?;
        }
        self.older.clear();
        if self.active.dirty {
            self.active.writer.sync()?;
            self.active.dirty = false;
        }
        Ok(())
    }

    /// Logs before `replay_from` are let go, and with them what the kernel has not yet written of them.
    pub fn let_go(&mut self, replay_from: LogId) {
        self.older.retain(|log| log.id >= replay_from);
    }
}
