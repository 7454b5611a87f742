//! SSTables: their metadata, the interface of readers, and the salvage of damaged tables.
use super::{Cursor, ObjectId};
use crate::Result;
use std::sync::Arc;
use terrace_format::{
    Kind, RangeTombstones, SeqNo, TableId, TableProperties, Within,
    block::{BlockCursor, Bytes},
};

/// The metadata of a finished table. `smallest` and `largest` are internal keys that bound every
/// entry and every range tombstone. If the end of a range tombstone is the largest bound,
/// `largest` consists of the end key and the largest sequence number. This internal key sorts
/// before every entry of the end key, because the end of a range tombstone is exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// The number of the table.
    pub id: TableId,
    /// The size in bytes, without values that are stored outside of the table.
    pub bytes: u64,
    /// The position in a bundle, if the table shares a file with other tables. `refs` then contains
    /// the bundle.
    pub within: Option<Within>,
    /// The number of the table's sorted run, in a level below level 0. A run with a larger number
    /// has newer entries.
    pub run: u64,
    /// The number of entries if the table's form counts them; otherwise 0.
    pub entries: u64,
    /// For a new table: the bytes of its files that are also files of the input tables (hard
    /// links). The removal of the inputs does not free these bytes. Otherwise 0.
    pub linked_bytes: u64,
    /// The first internal key.
    pub smallest: Vec<u8>,
    /// The last internal key.
    pub largest: Vec<u8>,
    /// The objects that contain the table or its values: its bundle, and the value-log segments
    /// into which it points. Each object is listed with the number of its bytes that the table
    /// keeps alive. The live bytes of an object are the sum over all tables of a version. An object
    /// that no version refers to is obsolete.
    pub refs: Vec<(ObjectId, u64)>,
}

impl TableMeta {
    /// Makes metadata with only the number and the size. All other values are unknown.
    pub fn unbounded(id: TableId, bytes: u64) -> TableMeta {
        TableMeta::bounded(id, bytes, None, Vec::new(), Vec::new())
    }

    /// Makes the metadata of a table that contains its values and does not count its entries.
    pub fn bounded(id: TableId, bytes: u64, within: Option<Within>, smallest: Vec<u8>, largest: Vec<u8>) -> TableMeta {
        let refs = within.iter().map(|within| (ObjectId::Bundle(within.bundle), bytes)).collect();
        TableMeta { id, bytes, within, run: 0, entries: 0, linked_bytes: 0, smallest, largest, refs }
    }

    /// Returns the value-log segments into which the table points: `refs` without the bundle.
    pub fn segments(&self) -> impl Iterator<Item = (ObjectId, u64)> + '_ {
        self.refs.iter().copied().filter(|(object, _)| !matches!(object, ObjectId::Bundle(_)))
    }
}

/// Options for reading a table.
#[derive(Clone, Copy, Debug)]
pub struct TableReadOptions {
    /// Whether to verify the checksum of every block, unless the block was verified when it entered
    /// the block cache, or was verified since the table was opened and mapped.
    pub verify: bool,
    /// Whether to insert blocks into the block cache. Blocks of a cursor's read-ahead are never
    /// inserted. A caller that reads a table only once sets this to false. Blocks are then also not
    /// read through the mapping of a table.
    pub fill_cache: bool,
}

/// The result of a point lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The sequence number of the entry.
    pub seq: SeqNo,
    /// The kind of the entry: put or tombstone.
    pub kind: Kind,
    /// The value of the entry; empty for a tombstone. As long as the value exists, it may keep the
    /// whole block in memory.
    pub value: Bytes,
}

/// An open table. Storage may close the file of a table that is not in use. The next call of a
/// method then opens the file again, and may fail.
pub trait Table: Send + Sync {
    /// Returns the newest entry that a reader sees for a user key. `lookup` contains the user key
    /// and the reader's sequence number (see `key::lookup`).
    fn get(&self, lookup: &[u8], how: TableReadOptions) -> Result<Option<Found>>;
    /// Returns whether the table may have entries of the user key in `lookup`, according to the
    /// table's filter. Returns true if there is no filter.
    fn may_have(&self, lookup: &[u8]) -> Result<bool>;
    /// Starts to read the block for which a later [`get`](Table::get) with the same `lookup` would
    /// wait. This has an effect only if the backend supports it and the block can be located
    /// without a read. Returns false if `get` would certainly find nothing.
    fn expect(&self, lookup: &[u8], how: TableReadOptions) -> Result<bool>;
    /// Returns a cursor that is at no entry yet. The cursor keeps the files that it reads open.
    fn cursor(&self, how: TableReadOptions) -> Result<Cursor>;
    /// Returns the approximate number of bytes of the table before `key`.
    fn offset_of(&self, key: &[u8]) -> Result<u64>;
    /// Returns at most `count` user keys, in order, that divide the table into parts of about equal
    /// size. Each key is returned with the number of bytes of the part that ends at this key. No
    /// entry is after the last key.
    fn anchors(&self, count: usize) -> Result<Vec<(Vec<u8>, u64)>>;
    /// Returns the range tombstones of the table; `None` if it has none. A range tombstone shadows
    /// older entries, including those of this table.
    fn range_tombstones(&self) -> Result<Option<Arc<RangeTombstones>>>;
    /// Returns the properties that the table contains; `None` if its writer stored none, as
    /// LevelDB's does.
    fn properties(&self) -> Result<Option<TableProperties>>;
    /// Reads and verifies the whole table: checksums, the order of keys, that the filters match
    /// every key, and that the properties are true. Returns the properties.
    fn verify(&self) -> Result<TableProperties>;
}

/// Reads a table that may be damaged, from its start to its end. The reader trusts no byte of the
/// file.
pub trait Salvage: Send {
    /// Returns the next part of the table. Neither damage nor a failing device is an error: both
    /// are returned as a loss.
    fn next(&mut self) -> Piece;
    /// Returns the range tombstones of the table, even if other parts of it cannot be read; `None`
    /// if it has none.
    fn range_tombstones(&self) -> Result<Option<Arc<RangeTombstones>>>;
}

/// A part of a damaged table.
pub enum Piece {
    /// A block of verified entries, positioned at the first entry. Its keys are complete, and they
    /// follow all keys of earlier parts.
    Block(BlockCursor),
    /// A damaged range of bytes that may have contained entries.
    Lost(Loss),
    /// The end of the table.
    End,
}

/// A damaged range of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The offset of the first damaged byte in the table's file.
    pub offset: u64,
    /// The number of damaged bytes.
    pub bytes: u64,
    /// A description of the damage.
    pub reason: String,
    /// The smallest user key that may be lost; `None` if unknown.
    pub from: Option<Vec<u8>>,
    /// The largest user key that may be lost; `None` if unknown.
    pub to: Option<Vec<u8>>,
}
