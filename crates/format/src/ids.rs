//! Newtypes for numbers, so that an SSTable's number cannot be mistaken for a WAL's.
//!
//! SSTables, WALs and manifests share one counter, the manifest's next file number, as in
//! LevelDB.
use std::fmt;

/// Number of levels, fixed by LevelDB's manifest readers.
pub const LEVELS: usize = 7;

/// Sequence number of a write; the first write has 1. 56 bits, because it shares a word with the
/// kind of the entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// Precedes the first write.
    pub const ZERO: SeqNo = SeqNo(0);
    /// The largest sequence number. As a read position it includes everything.
    pub const MAX: SeqNo = SeqNo((1 << 56) - 1);

    /// Returns the sequence number `count` writes later.
    pub fn plus(self, count: u64) -> SeqNo {
        SeqNo(self.0 + count)
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of an SSTable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// Number of a WAL or a manifest, depending on context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u64);

/// Number of a value-log segment written by garbage collection. A segment that began as a WAL
/// has its [`LogId`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}
