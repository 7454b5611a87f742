//! All that one flush or compaction puts out.
use super::{EntryRef, ObjectId, Origin, TableMeta, WholeBlock};
use crate::{DurabilityHandle, Error, Result};
use terrace_format::{SegmentId, TableId, range_tombstones::Fragment};

/// Why a build is made; who places data must know before the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// From a memtable: the first tables to be merged away.
    Flush,
    /// From a compaction.
    Compaction,
    /// From elsewhere: what is taken over, repaired or converted. Each must be an object of its own, as it may be renumbered.
    Ingest,
}

/// What the engine knows about a build before it begins.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    /// Where the outputs will live. A flush may end up deeper than it says.
    pub level: usize,
    /// About how much will be written, in bytes.
    pub expected_bytes: u64,
    /// What the build is for.
    pub lifetime: Lifetime,
}

/// All outputs of one flush or sub-compaction. One thread. Dropped unfinished, it removes what it wrote.
pub trait TableSink: Send {
    /// Starts the next table. No table may be open. No id is ever reused, not even after an error.
    fn begin_table(&mut self, id: TableId) -> Result<()>;
    /// Stores an entry in the open table: a new one ([`Origin::Memory`]) or one taken over from an older table, by
    /// whatever means the backend has. Entries come in internal-key order, each once.
    fn keep(&mut self, entry: EntryRef<'_>) -> Result<()>;
    /// Whether a block of an older table may be [stored](TableSink::keep_block) as it is. If not, its entries are to be [kept](TableSink::keep).
    fn takes_block(&self, _block: &WholeBlock<'_>) -> bool {
        false
    }
    /// Stores a block of an older table in the open one as it is.
    fn keep_block(&mut self, _block: &WholeBlock<'_>) -> Result<()> {
        Err(Error::Unsupported("no build here takes whole blocks".into()))
    }
    /// Stores a new entry in the open table: as [`keep`](TableSink::keep), but with the value as the user gave it.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keep(EntryRef { key, stored: value, origin: Origin::Memory })
    }
    /// Entries of this build point into `segment`: its ticket covers all that was appended there before.
    fn rely_on(&mut self, segment: ObjectId) -> Result<()> {
        Err(Error::Unsupported(format!("no build here points into {segment:?}")))
    }
    /// From now on values stay in the segments in which they are.
    fn move_no_more(&mut self) {}
    /// Appends raw bytes to a segment that belongs to this build; where in it they lie. It begins with the first call that names it, which
    /// ends the one before.
    fn append_to_segment(&mut self, segment: SegmentId, bytes: &[u8]) -> Result<u64> {
        Err(Error::Unsupported(format!("no build here writes {} bytes into segment {segment}", bytes.len())))
    }
    /// Stores deletes of ranges in the open table, behind those stored in it before; their sequences are below no entry that
    /// they are to hide.
    fn delete_range(&mut self, fragment: &Fragment) -> Result<()>;
    /// Bytes of the open table so far, about; far more if it had better end.
    fn table_bytes(&self) -> u64;
    /// Ends the open table, which must have an entry or a delete of a range.
    fn end_table(&mut self) -> Result<()>;
    /// Seals the build. Its tables can be read at once; they survive power loss once the ticket is durable, not
    /// before. On error nothing is promised.
    fn finish(self: Box<Self>) -> Result<(Vec<TableMeta>, DurabilityHandle)>;
}
