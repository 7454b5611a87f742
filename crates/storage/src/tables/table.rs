//! Tables: what is known of one, how it is read, and what is left of a damaged one.
use super::{Cursor, ObjectId};
use crate::Result;
use std::sync::Arc;
use terrace_format::{
    Kind, RangeTombstones, SeqNo, TableId, TableProperties, Within,
    block::{BlockCursor, Bytes},
};

/// A finished table. `smallest` and `largest` are internal keys and bound every entry, and all that its deletes of ranges
/// hide: where one of them ends last, `largest` is that end with the largest sequence, which lies before every entry of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// Its number.
    pub id: TableId,
    /// Its own size in bytes, without what it refers to.
    pub bytes: u64,
    /// Where it lies, if it shares a file with others; then `refs` has the bundle.
    pub within: Option<Within>,
    /// How many entries it has, where the form of tables counts them; else 0.
    pub entries: u64,
    /// Bytes of a table just made that are files of its inputs, too: removing those frees none of them. Else 0.
    pub linked_bytes: u64,
    /// First internal key.
    pub smallest: Vec<u8>,
    /// Last internal key.
    pub largest: Vec<u8>,
    /// Objects it is in or points into and how many of their bytes it keeps alive. Live bytes of an object are the sum
    /// over the tables of a version; an object that no version names is removable.
    pub refs: Vec<(ObjectId, u64)>,
}

impl TableMeta {
    /// A table of which no more is known than this.
    pub fn unbounded(id: TableId, bytes: u64) -> TableMeta {
        TableMeta::bounded(id, bytes, None, Vec::new(), Vec::new())
    }

    /// A table with its values inside, whose entries are not counted.
    pub fn bounded(id: TableId, bytes: u64, within: Option<Within>, smallest: Vec<u8>, largest: Vec<u8>) -> TableMeta {
        let refs = within.iter().map(|within| (ObjectId::Bundle(within.bundle), bytes)).collect();
        TableMeta { id, bytes, within, entries: 0, linked_bytes: 0, smallest, largest, refs }
    }

    /// The segments of a value log that it points into: `refs` without the bundle that it is in.
    pub fn segments(&self) -> impl Iterator<Item = (ObjectId, u64)> + '_ {
        self.refs.iter().copied().filter(|(object, _)| !matches!(object, ObjectId::Bundle(_)))
    }
}

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadHow {
    /// Verify the checksum of every block read.
    pub verify: bool,
    /// Keep blocks read in the cache, except those that a cursor reads ahead. Who passes by once does not; he reads values that live in a log
    /// by calls, also where they are mapped, and gets an error where a page cannot be had.
    pub fill_cache: bool,
}

/// A point lookup's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// When it was written.
    pub seq: SeqNo,
    /// Put or delete.
    pub kind: Kind,
    /// The value; empty for a delete. It keeps what it lies in: a whole block, or a mapping.
    pub value: Bytes,
}

/// Immutable sorted entries. Any call may have to open the table again, and fail at that.
pub trait Table: Send + Sync {
    /// The newest entry for `lookup`'s user key at or below `lookup`'s sequence (see `key::lookup`).
    fn get(&self, lookup: &[u8], how: ReadHow) -> Result<Option<Found>>;
    /// Whether it may have entries of `lookup`'s user key, by its filter. True if it has none.
    fn may_have(&self, lookup: &[u8]) -> Result<bool>;
    /// Starts to read what [`get`](Table::get) of the same `lookup` would wait for, if it can be told without reading and
    /// the backend knows how; false if `get` would find nothing for certain.
    fn expect(&self, lookup: &[u8]) -> Result<bool>;
    /// A cursor that stands nowhere yet and keeps what it reads from.
    fn cursor(&self, how: ReadHow) -> Result<Cursor>;
    /// About how many bytes of the table lie before `key`.
    fn offset_of(&self, key: &[u8]) -> Result<u64>;
    /// Up to `count` user keys, in order, that cut the table into stretches of about equal bytes, each with the bytes of
    /// the stretch that it ends. The last key is not before any entry's.
    fn anchors(&self, count: usize) -> Result<Vec<(Vec<u8>, u64)>>;
    /// The deletes of ranges that the table holds; `None` if it has none. They hide older entries, of this table too.
    fn range_tombstones(&self) -> Result<Option<Arc<RangeTombstones>>>;
    /// What the table says of itself; `None` if its writer did not (LevelDB's do not).
    fn facts(&self) -> Result<Option<TableProperties>>;
    /// Reads everything: every checksum, the order, that filters admit every key, that the facts are true.
    fn verify(&self) -> Result<TableProperties>;
}

/// Reads a table that may be damaged from its start to its end. Trusts nothing in it.
pub trait Salvage: Send {
    /// What comes next. Damage is no error here, nor is a failing device.
    fn next(&mut self) -> Piece;
    /// The deletes of ranges that the table holds, whatever else of it can be read; `None` if it has none.
    fn range_tombstones(&self) -> Result<Option<Arc<RangeTombstones>>>;
}

/// What is found in a damaged table.
pub enum Piece {
    /// Verified entries; stands on the first. Their keys are whole, and behind all keys of pieces before.
    Block(BlockCursor),
    /// Bytes that may have held entries, and cannot be trusted.
    Lost(Loss),
    /// There is no more.
    End,
}

/// Bytes that cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Where they begin.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// What is wrong with them.
    pub reason: String,
    /// No user key before this one was among them; `None` if that cannot be told.
    pub from: Option<Vec<u8>>,
    /// No user key behind this one was among them; `None` if that cannot be told.
    pub to: Option<Vec<u8>>,
}
