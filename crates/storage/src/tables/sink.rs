//! The outputs of one flush or compaction job.
use super::{EntryRef, ObjectId, Origin, TableMeta, WholeBlock};
use crate::{DurabilityHandle, Error, Result};
use terrace_format::{SegmentId, TableId, range_tombstones::Fragment};

/// The kind of a job. A backend must know it before the job writes the first byte, to choose the
/// place of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// A flush job. Its tables are the ones that compactions remove first.
    Flush,
    /// A compaction job.
    Compaction,
    /// Ingestion, repair or conversion. Each output is an object with its own file, because it
    /// may get another number later.
    Ingest,
}

/// The properties of a job that are known before it begins.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    /// The level of the outputs. The table of a flush may later be installed in a deeper level.
    pub level: usize,
    /// The approximate number of bytes to be written.
    pub expected_bytes: u64,
    /// The kind of the job.
    pub lifetime: Lifetime,
}

/// Writes all outputs of one flush job or subcompaction. Only one thread uses a sink. If a sink is
/// dropped before `finish`, it removes its files.
pub trait TableSink: Send {
    /// Begins the next table. No other table may be open. The number `id` must not have been used
    /// before, not even for a table that failed.
    fn begin_table(&mut self, id: TableId) -> Result<()>;
    /// Adds an entry to the open table. The entry is either new ([`Origin::Memory`]), or it is in
    /// an older table and the backend chooses how to take it over. Entries must be added in
    /// internal-key order, each only once.
    fn keep(&mut self, entry: EntryRef<'_>) -> Result<()>;
    /// Returns whether a block of an older table may be [added](TableSink::keep_block) unchanged.
    /// If not, the caller must [add](TableSink::keep) its entries one by one.
    fn takes_block(&self, _block: &WholeBlock<'_>) -> bool {
        false
    }
    /// Adds a block of an older table to the open one, unchanged.
    fn keep_block(&mut self, _block: &WholeBlock<'_>) -> Result<()> {
        Err(Error::Unsupported("no build here takes whole blocks".into()))
    }
    /// Adds a new entry to the open table, as [`keep`](TableSink::keep) does. `value` is the user's
    /// value, not its stored form.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keep(EntryRef { key, stored: value, origin: Origin::Memory })
    }
    /// Records that entries of this job point into `segment`. The durability handle of the job then
    /// covers everything that was appended to the segment so far.
    fn rely_on(&mut self, segment: ObjectId) -> Result<()> {
        Err(Error::Unsupported(format!("no build here points into {segment:?}")))
    }
    /// Stops the relocation of values: values of entries added later stay in their segments.
    fn stop_relocation(&mut self) {}
    /// Appends raw bytes to a segment of this job and returns their offset in the segment. The
    /// first call with a new segment number begins that segment and ends the previous one.
    fn append_to_segment(&mut self, segment: SegmentId, bytes: &[u8]) -> Result<u64> {
        Err(Error::Unsupported(format!("no build here writes {} bytes into segment {segment}", bytes.len())))
    }
    /// Adds range tombstones to the open table. Their range must follow the ranges that were added
    /// before. A range tombstone shadows no entry with a greater sequence number than its own.
    fn delete_range(&mut self, fragment: &Fragment) -> Result<()>;
    /// Returns the approximate size of the open table in bytes. A number far above the real size
    /// means that the table should end now.
    fn table_bytes(&self) -> u64;
    /// Ends the open table, which must have an entry or a range tombstone.
    fn end_table(&mut self) -> Result<()>;
    /// Finishes the job. The tables of the job can be read immediately. They survive a power cut
    /// only when the handle is durable. After an error the tables may not exist.
    fn finish(self: Box<Self>) -> Result<(Vec<TableMeta>, DurabilityHandle)>;
}
