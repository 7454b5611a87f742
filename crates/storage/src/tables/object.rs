//! The objects of a store: tables, logs, bundles, segments and temporary files. Each has a number.
use terrace_format::{LogId, SegmentId, TableId, value_log::ValuePointer};

/// Any numbered object of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectId {
    /// An SSTable: a file, or a part of a bundle.
    Table(TableId),
    /// A write-ahead log.
    Wal(LogId),
    /// A manifest.
    Manifest(LogId),
    /// An incomplete file under a temporary name.
    Temporary(u64),
    /// A bundle: a file with several tables. Its number is that of its first table.
    Bundle(TableId),
    /// A value-log segment of relocated values.
    Segment(SegmentId),
    /// A WAL sidecar: the second file of a WAL, for batches without a value for the value log.
    /// [`open_log`](crate::placement::LogStore::open_log) reads the WAL and its sidecar as one log.
    WalSidecar(LogId),
}

impl ObjectId {
    /// Returns the object's number. The next file number of a store exceeds the numbers of all
    /// objects.
    pub fn number(self) -> u64 {
        match self {
            ObjectId::Table(id) | ObjectId::Bundle(id) => id.0,
            ObjectId::Wal(id) | ObjectId::WalSidecar(id) | ObjectId::Manifest(id) => id.0,
            ObjectId::Temporary(number) => number,
            ObjectId::Segment(id) => id.0,
        }
    }
}

impl From<&ValuePointer> for ObjectId {
    /// Returns the object into which a value pointer points.
    fn from(pointer: &ValuePointer) -> ObjectId {
        match pointer.moved {
            true => ObjectId::Segment(SegmentId(pointer.segment)),
            false => ObjectId::Wal(LogId(pointer.segment)),
        }
    }
}

/// One object found by [`ObjectStore::list`](crate::placement::ObjectStore::list).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The object.
    pub object: ObjectId,
    /// The size of the object in bytes.
    pub bytes: u64,
}
