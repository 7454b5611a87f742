//! The write-ahead log (WAL): one per memtable, and the order in which WALs become durable.
//!
//! Invariant: a power cut leaves a prefix of the history. So before a synced write is
//! acknowledged, *all* older live WALs are synced, oldest first. LevelDB syncs only the newest
//! and can lose the tail of an older one.
use crate::{Result, closed_wals::ClosedWals};
use terrace_format::{Batch, LogId, SeqNo};
use terrace_storage::placement::LogWriter;

/// The writer of the active WAL.
pub struct Wal {
    id: LogId,
    writer: Box<dyn LogWriter>,
    /// Bytes at which the memtable is sealed, however little it holds.
    bytes_max: u64,
    /// Bytes were appended since the last sync.
    dirty: bool,
    /// All writes up to this sequence number are durable, and a durable mark or the manifest
    /// records it.
    marked: SeqNo,
}

impl Wal {
    /// Continues in the fresh WAL `id`, which is full at `bytes_max` bytes. The manifest covers all
    /// writes up to `marked`.
    pub fn new(id: LogId, writer: Box<dyn LogWriter>, bytes_max: u64, marked: SeqNo) -> Wal {
        Wal { id, writer, bytes_max, dirty: false, marked }
    }

    /// Returns whether the WAL has reached its maximum size.
    pub fn is_full(&self) -> bool {
        self.bytes_max < u64::MAX && self.writer.bytes() >= self.bytes_max
    }

    /// Returns its number, its bytes so far, and those of its sidecar, which holds everything but
    /// separated values.
    pub fn size(&self) -> (LogId, u64, u64) {
        (self.id, self.writer.bytes(), self.writer.sidecar_bytes())
    }

    /// Appends `batch` and hands it to the operating system. With value separation, `batch` is
    /// rewritten to what the memtable stores; the returned bytes precede each stored value.
    pub fn append(&mut self, batch: &mut Batch) -> Result<&'static [u8]> {
        self.dirty = true;
        Ok(self.writer.append_batch(batch)?)
    }

    /// Closes the active WAL and continues in another. A closed WAL with unsynced bytes goes to
    /// `closed`.
    pub fn rotate(&mut self, id: LogId, writer: Box<dyn LogWriter>, closed: &ClosedWals) {
        let mut old = std::mem::replace(self, Wal::new(id, writer, self.bytes_max, self.marked));
        if old.dirty {
            old.writer.end();
            closed.add(old.id, old.writer);
        }
    }

    /// Makes everything appended durable, in the WALs of `closed` and in this one. Then all writes
    /// up to `last` are durable, in WALs or in durable SSTables, and a durable mark records it.
    pub fn sync(&mut self, closed: &ClosedWals, last: SeqNo) -> Result<()> {
        closed.sync()?;
        if self.dirty {
            self.writer.sync()?;
            self.dirty = false;
        }
        if self.marked < last {
            self.marked = last;
            // The writes are durable with or without the mark. If the mark fails, the next append
            // returns its error.
            let _ = self.writer.mark_durable(last.plus(1));
        }
        Ok(())
    }
}
