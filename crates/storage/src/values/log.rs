//! What grows at its end: logs, and the segments of a value log.
use crate::Result;
use terrace_format::{Batch, SeqNo, block::Bytes, log_record::Event as LogEvent};

/// What a log is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogKind {
    /// Batches, in the order they were written.
    Wal,
    /// Edits, in the order they became durable.
    Manifest,
}

/// Appends to a log. One thread.
pub trait LogWriter: Send + Sync {
    /// Appends one record and hands it to the operating system, so that it survives the end of this process.
    /// After an error the log's end is unknown: append nothing more.
    fn append(&mut self, record: &[u8]) -> Result<()>;
    /// Appends a batch as a record. What memtables are to hold of it takes its place: the same operations, with what is
    /// stored for each value, but for what stands in front of all of them, which is returned.
    fn append_batch(&mut self, batch: &mut Batch) -> Result<&'static [u8]> {
        self.append(batch.as_bytes()).map(|()| &[][..])
    }
    /// Everything appended survives a power cut when this returns (under tier `none`: no promise).
    /// After an error the log's contents are unknown, and stay so: a second try proves nothing.
    fn sync(&self) -> Result<()>;
    /// Notes in the log that every write before sequence `next` has been synced, in this log and in older
    /// ones: recovery then tells damage from a torn tail. The mark itself is not synced. A log on a device
    /// that is written past the page cache keeps it for the next append, as each append costs a page there.
    /// After an error the log's end is unknown, as after [`append`](LogWriter::append).
    fn mark_durable(&mut self, next: SeqNo) -> Result<()>;
    /// Nothing more is appended: what is kept for that, space and memory, may go.
    fn end(&mut self) {}
    /// Bytes so far, of what is listed under the log's name.
    fn bytes(&self) -> u64;
    /// Bytes so far of its [part](crate::placement::ObjectId::SmallLog) without values that stay.
    fn small_bytes(&self) -> u64 {
        0
    }
}

/// Appends to a segment. One thread.
pub trait SegmentWriter: Send + Sync {
    /// Appends `bytes` and hands them to the operating system. After an error the segment's end is unknown: append nothing more.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// As [`LogWriter::sync`].
    fn sync(&self) -> Result<()>;
    /// As [`LogWriter::end`]. From now on the segment may be [shown](SegmentReader::shown), and does not change.
    fn end(&mut self) {}
    /// Bytes so far.
    fn bytes(&self) -> u64;
}

/// Reads a segment that may still grow.
pub trait SegmentReader: Send + Sync {
    /// `bytes` bytes at `offset`; [`Error::Corrupt`](crate::Error::Corrupt) if the segment ends before.
    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>>;
    /// All of it, where the kernel keeps it; `None` where it is read by calls, as it is while it grows.
    fn shown(&self) -> Option<&Bytes> {
        None
    }
    /// Says that this will be read soon. A hint.
    fn expect(&self, offset: u64, bytes: u64);
    /// Its size now, in bytes.
    fn bytes(&self) -> Result<u64>;
}

/// Reads a log from its start. Trusts nothing in it.
pub trait LogReader: Send {
    /// Whether our writer made this log (its first record is fragmented as LevelDB's writer never does).
    fn ours(&self) -> bool;
    /// The next record, or what is in its place. Keeps returning `End` at the end. Fails only if reading fails.
    fn next(&mut self) -> Result<LogEvent>;
    /// Turns `batch`, which the last record was, into what memtables are to hold of it: see [`LogWriter::append_batch`].
    fn store(&mut self, batch: Batch) -> Batch {
        batch
    }
}
