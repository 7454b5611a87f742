//! The write-ahead log (WAL). Each memtable has one WAL. This module determines the order in which
//! WALs become durable.
//!
//! Invariant: a power cut leaves a prefix of the history. Therefore, before a synced write is
//! acknowledged, *all* older live WALs are synced, the oldest first. LevelDB syncs only the newest
//! WAL and can lose the end of an older one.
use crate::{Result, closed_wals::ClosedWals};
use terrace_format::{Batch, LogId, SeqNo};
use terrace_storage::placement::LogWriter;

/// The writer of the active WAL.
pub struct Wal {
    id: LogId,
    writer: Box<dyn LogWriter>,
    /// The size of the WAL, in bytes, at which the commit leader seals the memtable, even if the
    /// memtable is small.
    bytes_max: u64,
    /// Whether bytes were appended since the last sync.
    dirty: bool,
    /// The sequence number up to which all writes are durable, and up to which a durable mark or
    /// the manifest records that they are.
    marked: SeqNo,
}

impl Wal {
    /// Makes the writer of the new WAL `id`, which is full at `bytes_max` bytes. The manifest
    /// covers all writes up to `marked`.
    pub fn new(id: LogId, writer: Box<dyn LogWriter>, bytes_max: u64, marked: SeqNo) -> Wal {
        Wal { id, writer, bytes_max, dirty: false, marked }
    }

    /// Returns whether the WAL has reached its maximum size.
    pub fn is_full(&self) -> bool {
        self.bytes_max < u64::MAX && self.writer.bytes() >= self.bytes_max
    }

    /// Returns the number of the WAL, its size in bytes, and the size of its sidecar (its second
    /// file) in bytes. The sidecar contains the batches that have only small values.
    pub fn size(&self) -> (LogId, u64, u64) {
        (self.id, self.writer.bytes(), self.writer.sidecar_bytes())
    }

    /// Appends `batch` and passes it to the operating system. With value separation, the function
    /// changes `batch` to the form that the memtable stores. The memtable stores the returned bytes
    /// before each value.
    pub fn append(&mut self, batch: &mut Batch) -> Result<&'static [u8]> {
        self.dirty = true;
        Ok(self.writer.append_batch(batch)?)
    }

    /// Closes the active WAL and continues in a new one. If the closed WAL has unsynced bytes, it
    /// is added to `closed`.
    pub fn rotate(&mut self, id: LogId, writer: Box<dyn LogWriter>, closed: &ClosedWals) {
        let mut old = std::mem::replace(self, Wal::new(id, writer, self.bytes_max, self.marked));
        if old.dirty {
            old.writer.end();
            closed.add(old.id, old.writer);
        }
    }

    /// Syncs the WALs in `closed` and the active WAL. Afterwards all writes up to `last` are
    /// durable, in WALs or in durable SSTables, and a durable mark records this.
    pub fn sync(&mut self, closed: &ClosedWals, last: SeqNo) -> Result<()> {
        closed.sync()?;
        if self.dirty {
            self.writer.sync()?;
            self.dirty = false;
        }
        if self.marked < last {
            self.marked = last;
            // The writes are durable even without the durable mark. If the append of the mark
            // fails, the next append to the WAL returns the error.
            let _ = self.writer.mark_durable(last.plus(1));
        }
        Ok(())
    }
}
