//! THE interface: everything the engine can say to whatever keeps its bytes.
//!
//! Four nouns and a promise: [logs](LogWriter) (append-only), [builds](Build) (all outputs of one flush or
//! compaction), [tables](Table) (immutable sorted entries), the root (small, replaced atomically), and the
//! [`Ticket`] that says since when written things survive a power cut. Anything the engine needs and cannot
//! say here becomes a method here, never a side door. `contract.rs` is the suite that every backend passes.
//!
//! Keys are encoded internal keys (`terrace_format::key`) throughout. Nothing here takes an LSM decision.
use crate::{Adopted, Budget, Error, Result, Stretches, TableFile, Ticket, Traffic, durability::Finished};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{Batch, Kind, LogId, SegmentId, SeqNo, Shape, TableId};

pub use crate::cursor::{Blocks, Cursor, Values, WholeBlock};
pub use terrace_format::{
    RangeDeletes, TableFacts, Within,
    block::{BlockCursor, Bytes},
    log_record::Event as LogEvent,
    range_deletes::Fragment,
    value_log::{Pointer, Stored},
};

/// What a log is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogKind {
    /// Batches, in the order they were written.
    Wal,
    /// Edits, in the order they became durable.
    Manifest,
}

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
    /// Part of a write-ahead log whose values stay in it: the batches without any that does. [`open_log`](Placement::open_log) reads both.
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

impl From<&Pointer> for ObjectId {
    /// The object in which a pointer's entry lies.
    fn from(pointer: &Pointer) -> ObjectId {
        match pointer.moved {
            true => ObjectId::Segment(SegmentId(pointer.segment)),
            false => ObjectId::Wal(LogId(pointer.segment)),
        }
    }
}

/// One thing found by [`Placement::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Which.
    pub object: ObjectId,
    /// Its size in bytes.
    pub bytes: u64,
}

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

/// How to open a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Create what is missing; exclusive lock.
    Create,
    /// Must exist; exclusive lock.
    Write,
    /// Must exist; shared lock; creates and removes nothing.
    ReadOnly,
    /// As `ReadOnly`, but may have lost its root, and anything else.
    Salvage,
}

impl Mode {
    /// Whether anything may be changed.
    pub fn writes(self) -> bool {
        matches!(self, Mode::Create | Mode::Write)
    }
}

/// Sizes that storage can hold; the engine refuses more, it never truncates.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest user key in bytes.
    pub key_bytes_max: u64,
    /// Longest value in bytes.
    pub value_bytes_max: u64,
}

/// Where bytes live, and since when they survive.
pub trait Placement: Send + Sync {
    /// For messages: the directory or device.
    fn name(&self) -> String;
    /// What this store is made of: as its marker says, and in a new store as its [`Setup`](crate::Setup) says.
    fn shape(&self) -> Shape;
    /// For messages: where `object` is, or would be.
    fn place_of(&self, object: ObjectId) -> String;
    /// How tickets mature, for `stats` and `doctor`.
    fn tier(&self) -> &'static str;
    /// Whether anything is promised to survive a power cut (`false` under tier `none`).
    fn promises(&self) -> bool;
    /// What fits.
    fn limits(&self) -> Limits;
    /// Whether values may lie elsewhere than their keys, so that cursors must [fetch](Cursor::fetch) them.
    fn values_elsewhere(&self) -> bool {
        false
    }

    /// Starts a log. `first` becomes its first record, written so that [`LogReader::ours`] tells it from LevelDB's.
    /// An existing log of that number is an error.
    fn create_log(&self, id: LogId, kind: LogKind, first: &[u8]) -> Result<Box<dyn LogWriter>>;
    /// Opens a log from its beginning.
    fn open_log(&self, id: LogId, kind: LogKind) -> Result<Box<dyn LogReader>>;

    /// Starts a write-ahead log of raw bytes, into which tables may point; an existing one of that number is an error.
    fn create_segment(&self, log: LogId) -> Result<Box<dyn SegmentWriter>> {
        Err(Error::Unsupported(format!("{} keeps no values apart: log {log}", self.name())))
    }
    /// Opens a segment to read from anywhere in it, also what is appended later.
    fn open_segment(&self, object: ObjectId) -> Result<Arc<dyn SegmentReader>> {
        Err(Error::Unsupported(format!("{} keeps no values apart: {object:?}", self.name())))
    }
    /// Everything of log `log` that tables need is in tables by now, or it has nothing: nobody will
    /// [rely](Build::rely_on) on it for what a memtable held.
    fn log_flushed(&self, log: LogId) {
        let _ = log;
    }
    /// The value that is `stored` in a table or memtable for the put of `user` at `seq`. To be asked only where
    /// [`Shape::values`](terrace_format::Shape) says that values live apart; verified whatever `how` says.
    fn value(&self, user: &[u8], seq: SeqNo, stored: Bytes, how: ReadHow) -> Result<Bytes> {
        let _ = (user, seq, how);
        Ok(stored)
    }
    /// As [`value`](Placement::value), for a scan, which keeps the `stretches`: values side by side are read together.
    fn next_value(
        &self,
        user: &[u8],
        seq: SeqNo,
        stored: &[u8],
        how: ReadHow,
        stretches: &mut Stretches,
    ) -> Result<Bytes> {
        let _ = stretches;
        self.value(user, seq, Bytes::from(stored.to_vec()), how)
    }
    /// Says that [`value`](Placement::value) of `stored` will be asked for soon. A hint.
    fn expect_value(&self, stored: &[u8]) {
        let _ = stored;
    }
    /// From now on builds move the values that they keep out of these segments, so that nothing points there in the end.
    fn condemn(&self, segments: BTreeSet<ObjectId>) {
        let _ = segments;
    }
    /// Those of them in which builds have met something that cannot be read, and pointed to it still, since this was last asked.
    fn unmoved(&self) -> BTreeSet<ObjectId> {
        BTreeSet::new()
    }

    /// Starts a build.
    fn begin(&self, hint: Hint) -> Result<Box<dyn Build>>;
    /// Opens a table. It may be closed again while nobody reads from it, and opens by itself when somebody does; so hold on
    /// to what this returns for as long as the table may be read.
    fn open_table(&self, meta: &TableMeta) -> Result<Arc<dyn Table>>;

    /// Reads what can be read of a table that may be damaged. Of `table` only where it is counts.
    fn salvage(&self, table: &TableMeta) -> Result<Box<dyn Salvage>>;
    /// Opens a segment of moved values as if it were a log: each is a batch of its own, of the sequence under which it was put.
    fn salvage_values(&self, segment: SegmentId) -> Result<Box<dyn LogReader>> {
        Err(Error::Unsupported(format!("{} has no values apart, so no segment {segment}", self.name())))
    }
    /// The tables of a bundle by its own word, those left out whose space was given back. They come without bounds.
    fn tables_in(&self, _bundle: TableId) -> Result<Vec<TableMeta>> {
        Ok(Vec::new())
    }

    /// Atomically and durably replaces the root: from now on the store begins at `manifest`.
    fn publish_root(&self, manifest: LogId) -> Result<()>;
    /// The manifest at which the store begins; `None` where there is no store yet.
    fn load_root(&self) -> Result<Option<LogId>>;
    /// Durably writes the marker text, before the first use of what it announces.
    fn publish_marker(&self, text: &str) -> Result<()>;
    /// The marker text, if this store has one.
    fn load_marker(&self) -> Result<Option<String>>;

    /// Everything there, enough for a repair without a manifest. Unknown names are left out, and left alone.
    fn list(&self) -> Result<Vec<Listed>>;
    /// Removes an object for good: of a table within a bundle, its space is given back if nothing else shares the bundle.
    /// Absent is not an error. Of a log only this part goes. The caller answers for the rule of docs/durability.md.
    fn remove(&self, object: ObjectId) -> Result<()>;
    /// Says which tables there are, to be called at open, once nothing else is needed: space that others had in their
    /// bundles, and that an earlier session did not give back, is.
    fn trim(&self, _tables: &[TableMeta]) -> Result<()> {
        Ok(())
    }
    /// Keeps a durable copy of `object` under `lost/`, of a log all its parts; the object itself stays.
    fn set_aside(&self, object: ObjectId) -> Result<()>;

    /// The file of a table that has one to itself, of a bundle, or of a segment that nobody writes any more, for another store to
    /// [`adopt`](Placement::adopt).
    fn file_of(&self, object: ObjectId) -> Result<TableFile>;
    /// Takes over finished tables, bundles and segments under these numbers, by links where that can be, else by copies. What was promised about them
    /// does not count: when this returns they survive a power cut here, if anything is promised here.
    fn adopt(&self, files: &[(TableFile, ObjectId)]) -> Result<Adopted>;
    /// Bytes that may still be written here before it is full; `None` where nobody knows.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// Keeps `bytes` of space allocated that nobody else can take, or gives them up: 0. A reserve of another size is replaced.
    /// Where space cannot be kept so, does nothing.
    fn reserve(&self, bytes: u64) -> Result<()>;

    /// Makes `tables`, which a finished session left, survive a power cut if that session promised nothing (tier `none`).
    /// To be called at open, before anything is promised about them.
    fn settle(&self, tables: &[TableMeta]) -> Result<()>;
    /// To be called before a log that an earlier session left is replayed by one that writes. Where tables are going to point into it,
    /// all of it survives a power cut that reads show from now on: what can be saved is, and what only memory shows is not believed.
    fn settle_log(&self, _log: LogId) -> Result<()> {
        Ok(())
    }
    /// All of manifest `id`, which an earlier session left and the root names, survives a power cut from now on.
    fn settle_manifest(&self, id: LogId) -> Result<()>;
    /// Whether tables here may not survive a power cut, because a session that promised nothing left them.
    fn unsynced(&self) -> bool;
    /// The table has gone before the manifest heard of it, so it need not survive a power cut: if nothing has been done for that yet,
    /// nothing will be, and the table is to be [removed](Placement::remove). `None` if it has begun. Takes no I/O, unlike dropping what
    /// this returns.
    fn give_up(&self, _table: &TableMeta) -> Option<Finished> {
        None
    }
    /// Whether tickets mature by themselves, if late, so that [`commit`](Placement::commit) is for emergencies.
    fn is_patient(&self) -> bool {
        false
    }
    /// Makes progress with outstanding tickets at the tier's own pace; false if none is outstanding. May take as long as
    /// syncs take.
    fn advance(&self) -> Result<bool>;
    /// Forces one batch commit: every ticket handed out before this call is decided when it returns.
    fn commit(&self) -> Result<()>;
    /// The memory that this store's readers and writers share.
    fn budget(&self) -> &Arc<Budget>;
    /// Bytes and syncs so far, by purpose.
    fn traffic(&self) -> &Traffic;
}

/// Appends to a log. One thread.
pub trait LogWriter: Send + Sync {
    /// Appends one record and hands it to the operating system, so that it survives the end of this process.
    /// After an error the log's end is unknown: append nothing more.
    fn append(&mut self, record: &[u8]) -> Result<()>;
    /// Appends a batch as a record. What memtables are to hold of it takes its place: the same operations, with what is
    /// stored for each value, but for what stands in front of all of them, which is returned.
    fn append_batch(&mut self, batch: &mut Batch) -> Result<&'static [u8]> {
        self.append(batch.as_bytes()).map(|()| &[][..])
    }
    /// Everything appended survives a power cut when this returns (under tier `none`: no promise).
    /// After an error the log's contents are unknown, and stay so: a second try proves nothing.
    fn sync(&self) -> Result<()>;
    /// Nothing more is appended: what is kept for that, space and memory, may go.
    fn end(&mut self) {}
    /// Bytes so far, of what is listed under the log's name.
    fn bytes(&self) -> u64;
    /// Bytes so far of its [part](ObjectId::SmallLog) without values that stay.
    fn small_bytes(&self) -> u64 {
        0
    }
}

/// Appends to a segment. One thread.
pub trait SegmentWriter: Send + Sync {
    /// Appends `bytes` and hands them to the operating system. After an error the segment's end is unknown: append nothing more.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// As [`LogWriter::sync`].
    fn sync(&self) -> Result<()>;
    /// As [`LogWriter::end`]. From now on the segment may be [shown](SegmentReader::shown), and does not change.
    fn end(&mut self) {}
    /// Bytes so far.
    fn bytes(&self) -> u64;
}

/// Reads a segment that may still grow.
pub trait SegmentReader: Send + Sync {
    /// `bytes` bytes at `offset`; [`Error::Corrupt`] if the segment ends before.
    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>>;
    /// All of it, where the kernel keeps it; `None` where it is read by calls, as it is while it grows.
    fn shown(&self) -> Option<&Bytes> {
        None
    }
    /// Says that this will be read soon. A hint.
    fn expect(&self, offset: u64, bytes: u64);
    /// Its size now, in bytes.
    fn bytes(&self) -> Result<u64>;
}

/// Reads a log from its start. Trusts nothing in it.
pub trait LogReader: Send {
    /// Whether our writer made this log (its first record is fragmented as LevelDB's writer never does).
    fn ours(&self) -> bool;
    /// The next record, or what is in its place. Keeps returning `End` at the end. Fails only if reading fails.
    fn next(&mut self) -> Result<LogEvent>;
    /// Turns `batch`, which the last record was, into what memtables are to hold of it: see [`LogWriter::append_batch`].
    fn store(&mut self, batch: Batch) -> Batch {
        batch
    }
}

/// Where an entry comes from, for backends that can take it over without copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A memtable: the entry is new to tables.
    Memory,
    /// An older table.
    Table(TableId),
}

/// One stored entry, as a cursor stands on it.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    /// Internal key.
    pub key: &'a [u8],
    /// The value as stored there: the bytes themselves, or whatever the backend keeps in their place.
    pub stored: &'a [u8],
    /// Who stores it.
    pub origin: Origin,
}

/// All outputs of one flush or sub-compaction. One thread. Dropped unfinished, it removes what it wrote.
pub trait Build: Send {
    /// Starts the next table. No table may be open. No id is ever reused, not even after an error.
    fn begin_table(&mut self, id: TableId) -> Result<()>;
    /// Stores an entry in the open table: a new one ([`Origin::Memory`]) or one taken over from an older table, by
    /// whatever means the backend has. Entries come in internal-key order, each once.
    fn keep(&mut self, entry: EntryRef<'_>) -> Result<()>;
    /// Whether a block of an older table may be [stored](Build::keep_block) as it is. If not, its entries are to be [kept](Build::keep).
    fn takes_block(&self, _block: &WholeBlock<'_>) -> bool {
        false
    }
    /// Stores a block of an older table in the open one as it is.
    fn keep_block(&mut self, _block: &WholeBlock<'_>) -> Result<()> {
        Err(Error::Unsupported("no build here takes whole blocks".into()))
    }
    /// Stores a new entry in the open table: as [`keep`](Build::keep), but with the value as the user gave it.
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
    fn finish(self: Box<Self>) -> Result<(Vec<TableMeta>, Ticket)>;
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
    fn range_deletes(&self) -> Result<Option<Arc<RangeDeletes>>>;
    /// What the table says of itself; `None` if its writer did not (LevelDB's do not).
    fn facts(&self) -> Result<Option<TableFacts>>;
    /// Reads everything: every checksum, the order, that filters admit every key, that the facts are true.
    fn verify(&self) -> Result<TableFacts>;
}

/// Reads a table that may be damaged from its start to its end. Trusts nothing in it.
pub trait Salvage: Send {
    /// What comes next. Damage is no error here, nor is a failing device.
    fn next(&mut self) -> Piece;
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
