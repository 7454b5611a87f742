//! Append-only objects: the WAL, the manifest, and the segments of the value log.
use crate::Result;
use terrace_format::{Batch, SeqNo, log_record::Event as LogEvent};

/// The kind of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogKind {
    /// The write-ahead log: batches, in the order in which they were written.
    Wal,
    /// The manifest: version edits, in the order in which they became durable.
    Manifest,
}

/// Appends records to a log. Only one thread uses a writer.
pub trait LogWriter: Send + Sync {
    /// Appends one record and passes it to the operating system, so that the record survives the
    /// end of this process. After an error the end of the log is unknown, and nothing more may be
    /// appended.
    fn append(&mut self, record: &[u8]) -> Result<()>;
    /// Appends `batch` as one record. Then converts `batch` to the form that the memtable stores:
    /// the same operations, with the stored form of each value. If all stored values begin with the
    /// same prefix, this function returns the prefix instead of adding it to each value.
    fn append_batch(&mut self, batch: &mut Batch) -> Result<&'static [u8]> {
        self.append(batch.as_bytes()).map(|()| &[][..])
    }
    /// Makes everything that was appended durable, except in the durability mode `none`. After an
    /// error the contents of the log stay unknown, even if a later sync succeeds.
    fn sync(&self) -> Result<()>;
    /// Appends a durable mark. This record states that every write before sequence number `next`
    /// was synced, in this log and in older ones. Recovery uses the mark to distinguish damage from
    /// a torn tail. The mark itself is not synced. With `direct_io` each append costs a page, so
    /// the mark is written together with the next append. After an error the end of the log is
    /// unknown, as after [`append`](LogWriter::append).
    fn mark_durable(&mut self, next: SeqNo) -> Result<()>;
    /// Ends the log: nothing is appended afterwards. Releases preallocated space and memory.
    fn end(&mut self) {}
    /// Returns the present size of the log's file in bytes, without the sidecar.
    fn bytes(&self) -> u64;
    /// Returns the present size in bytes of the [sidecar](crate::placement::ObjectId::WalSidecar)
    /// of this WAL.
    fn sidecar_bytes(&self) -> u64 {
        0
    }
}

/// Appends bytes to a segment. Only one thread uses a writer.
pub trait SegmentWriter: Send + Sync {
    /// Appends `bytes` and passes them to the operating system. After an error the end of the
    /// segment is unknown, and nothing more may be appended.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes everything that was appended durable; see [`LogWriter::sync`].
    fn sync(&self) -> Result<()>;
    /// Ends the segment; see [`LogWriter::end`].
    fn end(&mut self) {}
    /// Returns the present size of the segment in bytes.
    fn bytes(&self) -> u64;
}

/// Reads a segment that may still grow.
pub trait SegmentReader: Send + Sync {
    /// Reads `bytes` bytes at `offset`; [`Error::Corrupt`](crate::Error::Corrupt) if the segment
    /// ends earlier.
    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>>;
    /// Hints that `bytes` bytes at `offset` will be read soon, so that the kernel can read them
    /// ahead.
    fn expect(&self, offset: u64, bytes: u64);
    /// Returns the present size in bytes.
    fn bytes(&self) -> Result<u64>;
    /// Returns the offset at which the hole at the end of the segment (zeros that were never
    /// written) begins. Returns the segment's size if this is unknown.
    fn data_end(&self) -> Result<u64> {
        self.bytes()
    }
}

/// Reads a log from its start. The reader trusts no byte of the log.
pub trait LogReader: Send {
    /// Returns whether Terrace wrote this log. The first record of such a log is fragmented in a
    /// way that LevelDB's writer never produces.
    fn ours(&self) -> bool;
    /// Returns the next record of the log, or a report of damaged bytes in its place. At the end of
    /// the log, this and all further calls return `End`. A call fails only if a read of the file
    /// fails.
    fn next(&mut self) -> Result<LogEvent>;
    /// Converts `batch`, which was decoded from the last record, to the form that the memtable
    /// stores; see [`LogWriter::append_batch`].
    fn store(&mut self, batch: Batch) -> Batch {
        batch
    }
}
