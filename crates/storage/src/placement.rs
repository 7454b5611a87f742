//! THE interface: everything the engine can say to whatever keeps its bytes.
//!
//! Four nouns and a promise: [logs](LogWriter) (append-only), [builds](TableSink) (all outputs of one flush or
//! compaction), [tables](Table) (immutable sorted entries), the root (small, replaced atomically), and the
//! [`DurabilityHandle`](crate::DurabilityHandle) that says since when written things survive a power cut. Anything the engine needs and cannot
//! say here becomes a method here, never a side door. `contract.rs` is the suite that every backend passes.
//!
//! Keys are encoded internal keys (`terrace_format::key`) throughout. Nothing here takes an LSM decision.
use crate::{Adopted, Budget, Error, IoStats, ReadCoalescer, Result, TableFile, durability::Finished};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{Layout, LogId, SegmentId, SeqNo, TableId};

pub use crate::{
    tables::{
        Blocks, Cursor, EntryRef, Found, Hint, Lifetime, Listed, Loss, ObjectId, Origin, Piece, ReadHow, Salvage,
        Table, TableMeta, TableSink, Values, WholeBlock,
    },
    values::{LogKind, LogReader, LogWriter, SegmentReader, SegmentWriter},
};
pub use terrace_format::{
    RangeTombstones, TableProperties, Within,
    block::{BlockCursor, Bytes},
    log_record::Event as LogEvent,
    range_tombstones::Fragment,
    value_log::{StoredValue, ValuePointer},
};

/// How to open a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Create what is missing; exclusive lock.
    Create,
    /// Must exist; exclusive lock.
    Write,
    /// Must exist; shared lock; creates and removes nothing.
    ReadOnly,
    /// As `ReadOnly`, but may have lost its root, and anything else.
    Salvage,
}

impl OpenMode {
    /// Whether anything may be changed.
    pub fn writes(self) -> bool {
        matches!(self, OpenMode::Create | OpenMode::Write)
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
pub trait Storage: Send + Sync {
    /// For messages: the directory or device.
    fn name(&self) -> String;
    /// What this store is made of: as its marker says, and in a new store as its [`StorageConfig`](crate::StorageConfig) says.
    fn layout(&self) -> Layout;
    /// For messages: where `object` is, or would be.
    fn place_of(&self, object: ObjectId) -> String;
    /// How tickets mature, for `stats` and `doctor`.
    fn durability_mode(&self) -> &'static str;
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
    /// [rely](TableSink::rely_on) on it for what a memtable held.
    fn log_flushed(&self, log: LogId) {
        let _ = log;
    }
    /// The value that is `stored` in a table or memtable for the put of `user` at `seq`. To be asked only where
    /// [`Layout::values`](terrace_format::Layout) says that values live apart; verified whatever `how` says.
    fn value(&self, user: &[u8], seq: SeqNo, stored: Bytes, how: ReadHow) -> Result<Bytes> {
        let _ = (user, seq, how);
        Ok(stored)
    }
    /// As [`value`](Storage::value), for a scan, which keeps the `stretches`: values side by side are read together.
    fn next_value(
        &self,
        user: &[u8],
        seq: SeqNo,
        stored: &[u8],
        how: ReadHow,
        stretches: &mut ReadCoalescer,
    ) -> Result<Bytes> {
        let _ = stretches;
        self.value(user, seq, Bytes::from(stored.to_vec()), how)
    }
    /// Says that [`value`](Storage::value) of `stored` will be asked for soon. A hint.
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
    fn begin(&self, hint: Hint) -> Result<Box<dyn TableSink>>;
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
    /// Names of what was set aside, below `lost/`, in order.
    fn lost(&self) -> Result<Vec<String>>;

    /// The file of a table that has one to itself, of a bundle, or of a segment that nobody writes any more, for another store to
    /// [`adopt`](Storage::adopt).
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
    /// nothing will be, and the table is to be [removed](Storage::remove). `None` if it has begun. Takes no I/O, unlike dropping what
    /// this returns.
    fn give_up(&self, _table: &TableMeta) -> Option<Finished> {
        None
    }
    /// Whether tickets mature by themselves, if late, so that [`commit`](Storage::commit) is for emergencies.
    fn is_patient(&self) -> bool {
        false
    }
    /// How many logs that take no more records may be kept open until their entries are durable in tables: with so many it is time to
    /// [`commit`](Storage::commit).
    fn closed_logs_max(&self) -> usize {
        usize::MAX
    }
    /// Makes progress with outstanding tickets at the tier's own pace; false if none is outstanding. May take as long as
    /// syncs take.
    fn advance(&self) -> Result<bool>;
    /// Forces one batch commit: every ticket handed out before this call is decided when it returns.
    fn commit(&self) -> Result<()>;
    /// The memory that this store's readers and writers share.
    fn budget(&self) -> &Arc<Budget>;
    /// Bytes and syncs so far, by purpose.
    fn traffic(&self) -> &IoStats;
}
