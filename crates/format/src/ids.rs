//! Defines a separate type for each kind of number, so that the number of an SSTable cannot be
//! mistaken for that of a WAL.
//!
//! As in LevelDB, the numbers of SSTables, WALs and manifests come from one counter, the
//! manifest's next file number.
use std::fmt;

/// Number of levels. It must be LevelDB's number, because LevelDB refuses a manifest with a higher
/// level.
pub const LEVELS: usize = 7;

/// Sequence number of a write. The first write has 1. A sequence number has 56 bits, because it
/// shares a 64-bit word with the kind of the entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// The sequence number before that of the first write.
    pub const ZERO: SeqNo = SeqNo(0);
    /// The largest sequence number. A reader at this number sees all writes.
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

/// Number of a column family (a key space of a store with its own LSM-tree). The number is never
/// assigned again, even after the family was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyId(pub u32);

impl FamilyId {
    /// The family that every store has.
    pub const DEFAULT: FamilyId = FamilyId(0);

    /// Returns the number that a manifest uses for `level` of this family.
    pub fn level(self, level: usize) -> usize {
        self.0 as usize * LEVELS + level
    }

    /// Returns the family and the level that `number` in a manifest stands for.
    pub fn of_level(number: usize) -> (FamilyId, usize) {
        (FamilyId(u32::try_from(number / LEVELS).expect("a manifest has 32 bits for it")), number % LEVELS)
    }
}

impl fmt::Display for FamilyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of an SSTable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// Number of a WAL or of a manifest, depending on the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u64);

/// Number of a value-log segment that garbage collection wrote. A segment that began as a WAL is
/// identified by its [`LogId`] instead.
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
