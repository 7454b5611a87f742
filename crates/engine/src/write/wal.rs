//! The write-ahead log: one log per memtable, and the order in which logs become durable.
//!
//! What survives a power cut must be a prefix of the history, so before a synced write is acknowledged *all* older live
//! logs are synced, oldest first. LevelDB syncs only the newest and can lose the tail of an older one.
use crate::{Result, closed_wals::ClosedWals};
use terrace_format::{Batch, LogId, SeqNo};
use terrace_storage::placement::LogWriter;

/// The active log's writer.
pub struct Wal {
    id: LogId,
    writer: Box<dyn LogWriter>,
    /// How long it may become before its memtable is sealed, however little that holds.
    bytes_max: u64,
    /// Something was appended since the last sync.
    dirty: bool,
    /// All writes up to it are durable, and a durable mark or the manifest says so.
    marked: SeqNo,
}

impl Wal {
    /// Continues in a fresh log, which is full with `bytes_max`; the manifest has all writes up to `marked`.
    pub fn new(id: LogId, writer: Box<dyn LogWriter>, bytes_max: u64, marked: SeqNo) -> Wal {
        Wal { id, writer, bytes_max, dirty: false, marked }
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
    pub fn rotate(&mut self, id: LogId, writer: Box<dyn LogWriter>, closed: &ClosedWals) {
        let mut old = std::mem::replace(self, Wal::new(id, writer, self.bytes_max, self.marked));
        if old.dirty {
            old.writer.end();
            closed.add(old.id, old.writer);
        }
    }

    /// Everything appended, here and to `closed`, survives a power cut. All writes up to `last` are among it or in durable
    /// tables, which a durable mark then says.
    pub fn sync(&mut self, closed: &ClosedWals, last: SeqNo) -> Result<()> {
        closed.sync()?;
        if self.dirty {
            self.writer.sync()?;
            self.dirty = false;
        }
        if self.marked < last {
            self.marked = last;
            // The writes are durable with or without the mark. If it fails, the next append returns its error.
            let _ = self.writer.mark_durable(last.plus(1));
        }
        Ok(())
    }
}
