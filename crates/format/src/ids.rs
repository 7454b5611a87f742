//! Numbers that name things. Newtypes, so that a table's number is never taken for a log's.
//!
//! Tables, logs and manifests draw from one counter, the manifest's `next_file_number`, as in LevelDB.
use std::fmt;

/// Levels of the tree, fixed by LevelDB's manifest readers.
pub const LEVELS: usize = 7;

/// Position of one write in the history, 1 for the first. 56 bits, because it shares a word with the entry's kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// Before the first write.
    pub const ZERO: SeqNo = SeqNo(0);
    /// The largest that fits; as a read position it means "everything".
    pub const MAX: SeqNo = SeqNo((1 << 56) - 1);

    /// The position `count` writes later.
    pub fn plus(self, count: u64) -> SeqNo {
        SeqNo(self.0 + count)
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names a sorted table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// Names a write-ahead log or a manifest; which of them, the context says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u64);

/// Names a segment of the value log that never was a log. One that was has its [`LogId`].
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
