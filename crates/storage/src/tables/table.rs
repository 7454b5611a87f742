//! SSTables: their metadata, the interface of readers, and the salvage of damaged ones.
use super::{Cursor, ObjectId};
use crate::Result;
use std::sync::Arc;
use terrace_format::{
    Kind, RangeTombstones, SeqNo, TableId, TableProperties, Within,
    block::{BlockCursor, Bytes},
};

/// The metadata of a finished table. `smallest` and `largest` are internal keys. They bound every
/// entry and every range tombstone: where a range tombstone ends last, `largest` is its end key
/// with the largest sequence number, which sorts before every entry of that key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// The number of the table.
    pub id: TableId,
    /// The size in bytes, without separately stored values.
    pub bytes: u64,
    /// The position in a bundle, if the table shares a file with others; then `refs` has the
    /// bundle.
    pub within: Option<Within>,
    /// The sorted run in a level below level 0: a run with a larger number has newer entries.
    pub run: u64,
    /// The number of entries, where the form of tables counts them; else 0.
    pub entries: u64,
    /// Bytes of a new table that are files of its inputs too: removing the inputs does not free
    /// them. Else 0.
    pub linked_bytes: u64,
    /// The first internal key.
    pub smallest: Vec<u8>,
    /// The last internal key.
    pub largest: Vec<u8>,
    /// The objects that the table is in or points into, with the bytes that it keeps alive in
    /// each. The live bytes of an object are the sum over the tables of a version; an object that
    /// no version names is obsolete.
    pub refs: Vec<(ObjectId, u64)>,
}

impl TableMeta {
    /// The metadata of a table of which only this is known.
    pub fn unbounded(id: TableId, bytes: u64) -> TableMeta {
        TableMeta::bounded(id, bytes, None, Vec::new(), Vec::new())
    }

    /// The metadata of a table with its values inside and without a count of entries.
    pub fn bounded(id: TableId, bytes: u64, within: Option<Within>, smallest: Vec<u8>, largest: Vec<u8>) -> TableMeta {
        let refs = within.iter().map(|within| (ObjectId::Bundle(within.bundle), bytes)).collect();
        TableMeta { id, bytes, within, run: 0, entries: 0, linked_bytes: 0, smallest, largest, refs }
    }

    /// The value-log segments that the table points into: `refs` without its bundle.
    pub fn segments(&self) -> impl Iterator<Item = (ObjectId, u64)> + '_ {
        self.refs.iter().copied().filter(|(object, _)| !matches!(object, ObjectId::Bundle(_)))
    }
}

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct TableReadOptions {
    /// Verify the checksum of every block.
    pub verify: bool,
    /// Insert blocks into the block cache, except those of a cursor's read-ahead. Without it, as
    /// in a single pass over a table, values in a value log are read by system calls even where
    /// segments are mapped, and an unreadable page is an error.
    pub fill_cache: bool,
}

/// The result of a point lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The sequence number.
    pub seq: SeqNo,
    /// Put or tombstone.
    pub kind: Kind,
    /// The value; empty for a tombstone. It keeps its whole block, or its mapping, alive.
    pub value: Bytes,
}

/// A table that can be read. Any call may have to reopen the table, and fail at that.
pub trait Table: Send + Sync {
    /// The newest entry of `lookup`'s user key at or below its sequence number (see
    /// `key::lookup`).
    fn get(&self, lookup: &[u8], how: TableReadOptions) -> Result<Option<Found>>;
    /// Whether the table may have entries of `lookup`'s user key, according to its filter. True
    /// without a filter.
    fn may_have(&self, lookup: &[u8]) -> Result<bool>;
    /// Starts the read that [`get`](Table::get) of the same `lookup` would wait for, if it is
    /// known without a read and the backend supports it. False if `get` would certainly find
    /// nothing.
    fn expect(&self, lookup: &[u8]) -> Result<bool>;
    /// A cursor, not yet positioned. It keeps the files that it reads from open.
    fn cursor(&self, how: TableReadOptions) -> Result<Cursor>;
    /// The approximate number of bytes of the table before `key`.
    fn offset_of(&self, key: &[u8]) -> Result<u64>;
    /// Up to `count` user keys, in order, that divide the table into parts of about equal size,
    /// each with the bytes of the part that it ends. No entry is after the last key.
    fn anchors(&self, count: usize) -> Result<Vec<(Vec<u8>, u64)>>;
    /// The range tombstones of the table; `None` if it has none. They hide older entries, of this
    /// table too.
    fn range_tombstones(&self) -> Result<Option<Arc<RangeTombstones>>>;
    /// The properties that the table states; `None` if its writer stored none, as LevelDB does.
    fn properties(&self) -> Result<Option<TableProperties>>;
    /// Reads and verifies everything: checksums, the order of keys, that the filters admit every
    /// key, and that the properties are true.
    fn verify(&self) -> Result<TableProperties>;
}

/// Reads a table that may be damaged from its start to its end. Trusts nothing in it.
pub trait Salvage: Send {
    /// The next part. Damage is no error here, nor is a failing device.
    fn next(&mut self) -> Piece;
    /// The range tombstones of the table, whatever else of it can be read; `None` if it has none.
    fn range_tombstones(&self) -> Result<Option<Arc<RangeTombstones>>>;
}

/// A part of a damaged table.
pub enum Piece {
    /// Verified entries, positioned at the first. Their keys are whole, and after all keys of
    /// earlier parts.
    Block(BlockCursor),
    /// Bytes that may have held entries and are damaged.
    Lost(Loss),
    /// The end of the table.
    End,
}

/// A damaged range of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The damage.
    pub reason: String,
    /// The least user key that may be lost; `None` if unknown.
    pub from: Option<Vec<u8>>,
    /// The greatest user key that may be lost; `None` if unknown.
    pub to: Option<Vec<u8>>,
}
