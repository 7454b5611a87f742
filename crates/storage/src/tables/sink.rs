//! The outputs of one flush or compaction job.
use super::{EntryRef, ObjectId, Origin, TableMeta, WholeBlock};
use crate::{DurabilityHandle, Error, Result};
use terrace_format::{SegmentId, TableId, range_tombstones::Fragment};

/// The kind of a job, which a backend must know before the first byte to place its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// A flush job: its tables are the first to be compacted away.
    Flush,
    /// A compaction job.
    Compaction,
    /// Ingestion, repair or conversion. Each output is an object of its own, as it may be
    /// renumbered.
    Ingest,
}

/// The properties of a job that are known before it begins.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    /// The level of the outputs. The table of a flush may end up in a deeper one.
    pub level: usize,
    /// The approximate number of bytes to be written.
    pub expected_bytes: u64,
    /// The kind of the job.
    pub lifetime: Lifetime,
}

/// Takes all outputs of one flush job or subcompaction. Used by one thread. Dropped unfinished, it
/// removes its files.
pub trait TableSink: Send {
    /// Begins the next table. No table may be open. No id is ever reused, not even after an error.
    fn begin_table(&mut self, id: TableId) -> Result<()>;
    /// Adds an entry to the open table: a new one ([`Origin::Memory`]), or one from an older
    /// table, by any means of the backend. Entries come in internal-key order, each once.
    fn keep(&mut self, entry: EntryRef<'_>) -> Result<()>;
    /// Whether a block of an older table can be [added](TableSink::keep_block) unchanged.
    /// Otherwise its entries are to be [added](TableSink::keep) one by one.
    fn takes_block(&self, _block: &WholeBlock<'_>) -> bool {
        false
    }
    /// Adds a block of an older table to the open one, unchanged.
    fn keep_block(&mut self, _block: &WholeBlock<'_>) -> Result<()> {
        Err(Error::Unsupported("no build here takes whole blocks".into()))
    }
    /// Adds a new entry to the open table, as [`keep`](TableSink::keep) does, but with the user's
    /// value.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keep(EntryRef { key, stored: value, origin: Origin::Memory })
    }
    /// Entries of this job point into `segment`: the durability handle of the job covers
    /// everything appended there so far.
    fn rely_on(&mut self, segment: ObjectId) -> Result<()> {
        Err(Error::Unsupported(format!("no build here points into {segment:?}")))
    }
    /// Ends relocation: from now on values stay in their segments.
    fn stop_relocation(&mut self) {}
    /// Appends raw bytes to a segment of this job and returns their offset in it. The first call
    /// for a segment begins it, and ends the previous one.
    fn append_to_segment(&mut self, segment: SegmentId, bytes: &[u8]) -> Result<u64> {
        Err(Error::Unsupported(format!("no build here writes {} bytes into segment {segment}", bytes.len())))
    }
    /// Adds range tombstones to the open table, after those added before. No entry that they hide
    /// has a greater sequence number.
    fn delete_range(&mut self, fragment: &Fragment) -> Result<()>;
    /// The approximate size of the open table in bytes; far more if the table should end.
    fn table_bytes(&self) -> u64;
    /// Ends the open table, which must have an entry or a range tombstone.
    fn end_table(&mut self) -> Result<()>;
    /// Finishes the job. Its tables can be read at once; they survive a power cut once the handle
    /// is durable, not before. After an error nothing is promised.
    fn finish(self: Box<Self>) -> Result<(Vec<TableMeta>, DurabilityHandle)>;
}
