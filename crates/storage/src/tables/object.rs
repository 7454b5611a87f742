//! What storage keeps: anything that has a number.
use terrace_format::{LogId, SegmentId, TableId, value_log::ValuePointer};

/// Anything with a number that storage keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectId {
    /// A sorted table: its file, or its part of a bundle.
    Table(TableId),
    /// A write-ahead log.
    Wal(LogId),
    /// A manifest.
    Manifest(LogId),
    /// Something half-made under a temporary name.
    Temporary(u64),
    /// A file of several tables, with the number of the first.
    Bundle(TableId),
    /// Values that were moved out of logs.
    Segment(SegmentId),
    /// Part of a write-ahead log whose values stay in it: the batches without any that does. [`open_log`](crate::placement::Storage::open_log) reads both.
    SmallLog(LogId),
}

impl ObjectId {
    /// The number, whatever it names; the next file number must exceed all of them.
    pub fn number(self) -> u64 {
        match self {
            ObjectId::Table(id) | ObjectId::Bundle(id) => id.0,
            ObjectId::Wal(id) | ObjectId::SmallLog(id) | ObjectId::Manifest(id) => id.0,
            ObjectId::Temporary(number) => number,
            ObjectId::Segment(id) => id.0,
        }
    }
}

impl From<&ValuePointer> for ObjectId {
    /// The object in which a pointer's entry lies.
    fn from(pointer: &ValuePointer) -> ObjectId {
        match pointer.moved {
            true => ObjectId::Segment(SegmentId(pointer.segment)),
            false => ObjectId::Wal(LogId(pointer.segment)),
        }
    }
}

/// One thing found by [`Storage::list`](crate::placement::Storage::list).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Which.
    pub object: ObjectId,
    /// Its size in bytes.
    pub bytes: u64,
}
