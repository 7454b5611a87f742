//! Append-only objects: the WAL, the manifest, and the segments of a value log.
use crate::Result;
use terrace_format::{Batch, SeqNo, block::Bytes, log_record::Event as LogEvent};

/// The kind of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogKind {
    /// The write-ahead log: batches, in the order of writing.
    Wal,
    /// The manifest: version edits, in the order in which they became durable.
    Manifest,
}

/// Appends to a log. Used by one thread.
pub trait LogWriter: Send + Sync {
    /// Appends one record and hands it to the operating system, so that it survives the end of
    /// this process. After an error the end of the log is unknown: append nothing more.
    fn append(&mut self, record: &[u8]) -> Result<()>;
    /// Appends a batch as a record, and turns it into the batch for the memtable: the same
    /// operations, with the stored form of each value. A prefix that all stored values share is
    /// returned instead.
    fn append_batch(&mut self, batch: &mut Batch) -> Result<&'static [u8]> {
        self.append(batch.as_bytes()).map(|()| &[][..])
    }
    /// Makes everything appended durable (no promise in the durability mode `none`). After an
    /// error the contents of the log are unknown, and stay so: a retry proves nothing.
    fn sync(&self) -> Result<()>;
    /// Appends a durable watermark: every write before sequence `next` has been synced, in this
    /// log and in older ones. Recovery then tells damage from a torn tail. The watermark itself is
    /// not synced. With `direct_io` it waits for the next append, because each append costs a page
    /// there. After an error the end of the log is unknown, as after
    /// [`append`](LogWriter::append).
    fn mark_durable(&mut self, next: SeqNo) -> Result<()>;
    /// Ends the log: nothing is appended any more, and preallocated space and memory are released.
    fn end(&mut self) {}
    /// Bytes so far, of the object that is listed under the log's number.
    fn bytes(&self) -> u64;
    /// Bytes so far of its [WAL sidecar](crate::placement::ObjectId::WalSidecar).
    fn sidecar_bytes(&self) -> u64 {
        0
    }
}

/// Appends to a segment. Used by one thread.
pub trait SegmentWriter: Send + Sync {
    /// Appends `bytes` and hands them to the operating system. After an error the end of the
    /// segment is unknown: append nothing more.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes everything appended durable; see [`LogWriter::sync`].
    fn sync(&self) -> Result<()>;
    /// Ends the segment; see [`LogWriter::end`]. From now on it does not change and may be
    /// [mapped](SegmentReader::shown).
    fn end(&mut self) {}
    /// Bytes so far.
    fn bytes(&self) -> u64;
}

/// Reads a segment that may still grow.
pub trait SegmentReader: Send + Sync {
    /// Reads `bytes` bytes at `offset`; [`Error::Corrupt`](crate::Error::Corrupt) if the segment
    /// ends earlier.
    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>>;
    /// The mapping of the whole segment; `None` where it is read by system calls, as it is while
    /// it grows.
    fn shown(&self) -> Option<&Bytes> {
        None
    }
    /// Announces a read. A hint.
    fn expect(&self, offset: u64, bytes: u64);
    /// The present size in bytes.
    fn bytes(&self) -> Result<u64>;
}

/// Reads a log from its start. Trusts nothing in it.
pub trait LogReader: Send {
    /// Whether Terrace wrote this log: its first record is fragmented in a way that LevelDB's
    /// writer never produces.
    fn ours(&self) -> bool;
    /// The next record, or the damage in its place. Returns `End` again and again at the end.
    /// Fails only if a read fails.
    fn next(&mut self) -> Result<LogEvent>;
    /// Turns `batch`, the last record, into the batch for the memtable: see
    /// [`LogWriter::append_batch`].
    fn store(&mut self, batch: Batch) -> Batch {
        batch
    }
}
