//! The interface of a store: everything that the engine can ask of storage.
//!
//! The objects are [logs](LogWriter) (append-only), the outputs of one flush or compaction job
//! ([`TableSink`]), [tables](Table) (immutable and sorted), and the root (small, replaced
//! atomically). A [`DurabilityHandle`](crate::DurabilityHandle) reports when written objects
//! survive a power cut. A new need of the engine becomes a method here, never a way around this
//! interface. `contract/` is the suite that every backend passes.
//!
//! Keys are encoded internal keys (`terrace_format::key`) throughout. No decision of the LSM-tree
//! is made here.
use crate::{Adopted, Budget, Error, IoStats, ReadCoalescer, Result, TableFile, durability::Finished};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{Layout, LogId, SegmentId, SeqNo, TableId};
use terrace_vfs::TextLog;

pub use crate::{
    tables::{
        Blocks, Cursor, EntryRef, Found, Hint, Lifetime, Listed, Loss, ObjectId, Origin, Piece, Salvage, Table,
        TableMeta, TableReadOptions, TableSink, Values, WholeBlock,
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
    /// Creates missing files; exclusive lock.
    Create,
    /// The store must exist; exclusive lock.
    Write,
    /// The store must exist; shared lock; nothing is created or removed.
    ReadOnly,
    /// As `ReadOnly`, but the root and anything else may be missing.
    Salvage,
}

impl OpenMode {
    /// Whether this mode may change the store.
    pub fn writes(self) -> bool {
        matches!(self, OpenMode::Create | OpenMode::Write)
    }
}

/// The size limits of storage. The engine refuses larger keys and values and never truncates them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest user key, in bytes.
    pub key_bytes_max: u64,
    /// The longest value, in bytes.
    pub value_bytes_max: u64,
}

/// The identity of a store, and the resources that its readers and writers share.
pub trait StoreInfo: Send + Sync {
    /// The directory or device, for messages.
    fn name(&self) -> String;
    /// The layout: that of the format file, and in a new store that of
    /// [`StorageConfig`](crate::StorageConfig).
    fn layout(&self) -> Layout;
    /// The path of `object`, existing or not, for messages.
    fn place_of(&self, object: ObjectId) -> String;
    /// The size limits.
    fn limits(&self) -> Limits;
    /// The memory budget of the store.
    fn budget(&self) -> &Arc<Budget>;
    /// Bytes and syncs so far, by purpose.
    fn io_stats(&self) -> &IoStats;
    /// Begins the file `LOG` of a session that writes; `None` where a store has none.
    fn text_log(&self) -> Option<TextLog> {
        None
    }
}

/// The WAL and the manifest.
pub trait LogStore: StoreInfo {
    /// Creates a log. `first` becomes its first record, written so that [`LogReader::ours`] can
    /// distinguish it from LevelDB's. An existing log with that number is an error.
    fn create_log(&self, id: LogId, kind: LogKind, first: &[u8]) -> Result<Box<dyn LogWriter>>;
    /// Opens a log at its beginning.
    fn open_log(&self, id: LogId, kind: LogKind) -> Result<Box<dyn LogReader>>;
    /// Prepares a WAL of an earlier session for replay in a session that writes. Where tables will
    /// point into it, everything that reads show from now on is durable: it is synced, and bytes
    /// that only the page cache has are dropped.
    fn prepare_replay(&self, _log: LogId) -> Result<()> {
        Ok(())
    }
    /// The number of closed WALs that may stay open until their entries are durable in tables. At
    /// this number a [`commit`](Durability::commit) is due.
    fn closed_wals_max(&self) -> usize {
        usize::MAX
    }
}

/// Values, and the value log where values are separated from their keys. The defaults are those of
/// a store without key-value separation.
pub trait ValueStore: StoreInfo {
    /// Whether values may be stored separately from their keys, so that cursors must
    /// [fetch](Cursor::fetch) them.
    fn separates_values(&self) -> bool {
        false
    }
    /// Creates a WAL of raw bytes, into which tables may point. An existing one with that number
    /// is an error.
    fn create_segment(&self, log: LogId) -> Result<Box<dyn SegmentWriter>> {
        Err(Error::Unsupported(format!("{} has no value log, so no segment for WAL {log}", self.name())))
    }
    /// Opens a segment for reads at any offset, also of bytes that are appended later.
    fn open_segment(&self, object: ObjectId) -> Result<Arc<dyn SegmentReader>> {
        Err(Error::Unsupported(format!("{} has no value log, so no {object:?}", self.name())))
    }
    /// All entries of WAL `log` that tables need are in tables, or it has none: no further job
    /// will [rely](TableSink::rely_on) on it for a memtable.
    fn wal_flushed(&self, log: LogId) {
        let _ = log;
    }
    /// The value of the put of `user` at `seq`, for which a table or memtable has `stored`. Only
    /// where [`Layout::values`](terrace_format::Layout) separates keys and values. Verified
    /// whatever `how` says.
    fn value(&self, user: &[u8], seq: SeqNo, stored: Bytes, how: TableReadOptions) -> Result<Bytes> {
        let _ = (user, seq, how);
        Ok(stored)
    }
    /// As [`value`](ValueStore::value), for a scan: adjacent values are read together through
    /// `stretches`, which the scan keeps.
    fn next_value(
        &self,
        user: &[u8],
        seq: SeqNo,
        stored: &[u8],
        how: TableReadOptions,
        stretches: &mut ReadCoalescer,
    ) -> Result<Bytes> {
        let _ = stretches;
        self.value(user, seq, Bytes::from(stored.to_vec()), how)
    }
    /// Announces a call of [`value`](ValueStore::value) with `stored`. A hint.
    fn prefetch_value(&self, stored: &[u8]) {
        let _ = stored;
    }
    /// Makes these segments victims of value-log GC: from now on jobs relocate the values that
    /// they keep, so that no table points into the segments in the end.
    fn set_gc_victims(&self, segments: BTreeSet<ObjectId>) {
        let _ = segments;
    }
    /// The victims in which jobs met unreadable values, and to which tables therefore still point,
    /// since the last call.
    fn unrelocated_victims(&self) -> BTreeSet<ObjectId> {
        BTreeSet::new()
    }
    /// Opens a segment of relocated values as a log: each value is a batch of its own, at the
    /// sequence number of its put.
    fn salvage_values(&self, segment: SegmentId) -> Result<Box<dyn LogReader>> {
        Err(Error::Unsupported(format!("{} has no value log, so no segment {segment}", self.name())))
    }
}

/// SSTables.
pub trait TableStore: StoreInfo {
    /// Starts the outputs of a job.
    fn begin(&self, hint: Hint) -> Result<Box<dyn TableSink>>;
    /// Opens a table. It may be closed while it is not used, and reopens by itself; so the caller
    /// keeps the result as long as the table may be read.
    fn open_table(&self, meta: &TableMeta) -> Result<Arc<dyn Table>>;
    /// Opens a table that may be damaged, to read its intact part. Of `table` only the location is
    /// used.
    fn salvage(&self, table: &TableMeta) -> Result<Box<dyn Salvage>>;
    /// The tables of a bundle according to its own directory, without those whose space was
    /// deallocated. They have no bounds.
    fn tables_in(&self, _bundle: TableId) -> Result<Vec<TableMeta>> {
        Ok(Vec::new())
    }
    /// Deallocates the space of tables that are not in `tables` but in the same bundles. To be
    /// called at open, when nothing else is needed.
    fn trim(&self, _tables: &[TableMeta]) -> Result<()> {
        Ok(())
    }
}

/// The root (`CURRENT`) and the format file.
pub trait RootStore: StoreInfo {
    /// Replaces the root atomically and durably: from now on the store begins at `manifest`.
    fn publish_root(&self, manifest: LogId) -> Result<()>;
    /// The manifest at which the store begins; `None` where there is no store yet.
    fn load_root(&self) -> Result<Option<LogId>>;
    /// Writes the text of the format file durably, before the first use of a feature that it
    /// announces.
    fn publish_format_file(&self, text: &str) -> Result<()>;
    /// The text of the format file, if there is one.
    fn load_format_file(&self) -> Result<Option<String>>;
}

/// The files of all objects, and the space that they take.
pub trait ObjectStore: StoreInfo {
    /// Lists all objects, enough for a repair without a manifest. Unknown names are omitted and
    /// left alone.
    fn list(&self) -> Result<Vec<Listed>>;
    /// Removes an object. A table in a bundle loses its space, unless it is the last of the
    /// bundle. An absent object is no error. Of a WAL in two parts only this part is removed. The
    /// caller observes the removal rule of docs/durability.md.
    fn remove(&self, object: ObjectId) -> Result<()>;
    /// Keeps a durable copy of `object` under `lost/`, of a WAL all its parts; the object itself
    /// stays.
    fn set_aside(&self, object: ObjectId) -> Result<()>;
    /// The names in `lost/` of the copies set aside, sorted.
    fn lost(&self) -> Result<Vec<String>>;
    /// The file of a table of its own, of a bundle, or of a finished segment, for another store to
    /// [`adopt`](ObjectStore::adopt).
    fn file_of(&self, object: ObjectId) -> Result<TableFile>;
    /// Takes over finished tables, bundles and segments under these numbers, by hard links where
    /// possible, else by copies. Syncs them, so that they survive a power cut at return unless the
    /// durability mode is `none`; earlier promises do not count.
    fn adopt(&self, files: &[(TableFile, ObjectId)]) -> Result<Adopted>;
    /// Bytes that can still be written; `None` if unknown.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// Keeps `bytes` of space allocated as a reserve, replacing a reserve of another size; 0
    /// releases it. Does nothing where space cannot be allocated without writing.
    fn reserve(&self, bytes: u64) -> Result<()>;
}

/// The time from which objects survive a power cut.
pub trait Durability: StoreInfo {
    /// The durability mode, for `stats` and `doctor`.
    fn durability_mode(&self) -> &'static str;
    /// Whether anything is promised to survive a power cut; false in the durability mode `none`.
    fn promises(&self) -> bool;
    /// Makes `tables` of an earlier session durable if that session promised nothing (durability
    /// mode `none`). To be called at open, before anything is promised about them.
    fn settle(&self, tables: &[TableMeta]) -> Result<()>;
    /// Makes the manifest `id` durable, which an earlier session left and the root names.
    fn sync_manifest(&self, id: LogId) -> Result<()>;
    /// Whether tables may not survive a power cut, because a session in the durability mode `none`
    /// left them.
    fn unsynced(&self) -> bool;
    /// Cancels the sync of a table that became obsolete before an edit with it was committed to
    /// the manifest. If its sync has not begun, it will not be made, and the caller
    /// [removes](ObjectStore::remove) the table; `None` if it has begun. Takes no I/O, unlike
    /// dropping the result.
    fn cancel_sync(&self, _table: &TableMeta) -> Option<Finished> {
        None
    }
    /// Whether durability handles complete without a forced commit, if late, so that
    /// [`commit`](Durability::commit) is for emergencies.
    fn waits_for_fs_commit(&self) -> bool {
        false
    }
    /// Makes progress with pending handles at the pace of the durability mode; false if none is
    /// pending. May take as long as syncs take.
    fn advance(&self) -> Result<bool>;
    /// Forces a batch: every handle returned before this call is decided at return.
    fn commit(&self) -> Result<()>;
}

/// A store: the sum of its parts.
pub trait Storage: LogStore + ValueStore + TableStore + RootStore + ObjectStore + Durability {}

impl<T: LogStore + ValueStore + TableStore + RootStore + ObjectStore + Durability> Storage for T {}
