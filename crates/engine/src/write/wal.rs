//! The write-ahead log: one log per memtable, and the order in which logs become durable.
//!
//! What survives a power cut must be a prefix of the history, so before a synced write is acknowledged *all* older live
//! logs are synced, oldest first. LevelDB syncs only the newest and can lose the tail of an older one.
use crate::{Result, closed_logs::ClosedLogs};
use terrace_format::{Batch, LogId};
use terrace_storage::placement::LogWriter;

/// The active log's writer.
pub struct Wal {
    id: LogId,
    writer: Box<dyn LogWriter>,
    /// How long it may become before its memtable is sealed, however little that holds.
    bytes_max: u64,
    /// Something was appended since the last sync.
    dirty: bool,
}

impl Wal {
    /// Goes on in a fresh log, which is full with `bytes_max`.
    pub fn new(id: LogId, writer: Box<dyn LogWriter>, bytes_max: u64) -> Wal {
        Wal { id, writer, bytes_max, dirty: false }
    }

    /// Whether it is as long as it may become.
    pub fn is_full(&self) -> bool {
        self.bytes_max < u64::MAX && self.writer.bytes() >= self.bytes_max
    }

    /// Its number, its bytes so far, and those of its part without values that stay.
    pub fn size(&self) -> (LogId, u64, u64) {
        (self.id, self.writer.bytes(), self.writer.small_bytes())
    }

    /// Hands a batch to the operating system; what the memtable is to hold of it takes its place, behind what is returned.
    pub fn append(&mut self, batch: &mut Batch) -> Result<&'static [u8]> {
        self.dirty = true;
        Ok(self.writer.append_batch(batch)?)
    }

    /// Closes the active log and goes on in another.
    pub fn rotate(&mut self, id: LogId, writer: Box<dyn LogWriter>, closed: &ClosedLogs) {
        let mut old = std::mem::replace(self, Wal::new(id, writer, self.bytes_max));
        if old.dirty {
            old.writer.end();
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
