//! The interface of a store: all operations of the engine on storage.
//!
//! The objects of a store are [logs](LogWriter) (append-only), the outputs of one flush or
//! compaction job ([`TableSink`]), [tables](Table) (immutable and sorted), and the root (small,
//! replaced atomically). A [`DurabilityHandle`](crate::DurabilityHandle) reports when written
//! objects survive a power cut. If the engine needs a new operation, it is added to this
//! interface; the engine never bypasses the interface. `contract/` is the test suite that every
//! backend passes.
//!
//! All keys are encoded internal keys (`terrace_format::key`). Storage makes no decision about the
//! LSM-tree.
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
    /// Creates missing files. Takes an exclusive lock.
    Create,
    /// The store must exist. Takes an exclusive lock.
    Write,
    /// The store must exist. Takes a shared lock. Nothing is created or removed.
    ReadOnly,
    /// Like `ReadOnly`, but takes no lock: another process may write the store at the same time,
    /// and may remove files at any moment. Tables that were opened stay open, so that they can
    /// be read after their removal. Only for stores of block tables in a directory.
    Follow,
    /// Like `ReadOnly`, for a damaged store: the root and any other file may be missing.
    Salvage,
}

impl OpenMode {
    /// Returns whether an open in this mode may change the store.
    pub fn writes(self) -> bool {
        matches!(self, OpenMode::Create | OpenMode::Write)
    }
}

/// The size limits of storage, in bytes. The engine returns an error for larger keys and values;
/// it never truncates them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest user key, in bytes.
    pub key_bytes_max: u64,
    /// The longest value, in bytes.
    pub value_bytes_max: u64,
}

/// The identity of a store, and the resources that its readers and writers share.
pub trait StoreInfo: Send + Sync {
    /// Returns the path of the directory or device, for messages.
    fn name(&self) -> String;
    /// Returns the layout. An existing store has the layout of its format file. A new store has the
    /// layout that [`StorageConfig`](crate::StorageConfig) requests.
    fn layout(&self) -> Layout;
    /// Returns the path of `object`, for messages. The object need not exist.
    fn place_of(&self, object: ObjectId) -> String;
    /// Returns the size limits.
    fn limits(&self) -> Limits;
    /// Returns the memory budget of the store.
    fn budget(&self) -> &Arc<Budget>;
    /// Returns the counts of bytes and syncs so far, by purpose.
    fn io_stats(&self) -> &IoStats;
    /// Begins the file `LOG`, for a session that may write; `None` if this kind of store has no
    /// `LOG`.
    fn text_log(&self) -> Option<TextLog> {
        None
    }
}

/// The write-ahead logs (WALs) and manifests of a store.
pub trait LogStore: StoreInfo {
    /// Creates a log with the first record `first`. This record is written in a way by which
    /// [`LogReader::ours`] can distinguish the log from LevelDB's logs. It is an error if a log
    /// with that number exists.
    fn create_log(&self, id: LogId, kind: LogKind, first: &[u8]) -> Result<Box<dyn LogWriter>>;
    /// Opens a log at its beginning.
    fn open_log(&self, id: LogId, kind: LogKind) -> Result<Box<dyn LogReader>>;
    /// Prepares a WAL that was written before the store was opened, so that an open for writing can
    /// replay it. If tables will point into the WAL, all bytes that later reads return must be
    /// durable. Therefore the call syncs the WAL and drops the bytes that exist only in the page
    /// cache.
    fn prepare_replay(&self, _log: LogId) -> Result<()> {
        Ok(())
    }
    /// Returns how many closed WALs (WALs that take no more writes) may keep a file descriptor
    /// until their entries are durable in tables. When this number is reached, the caller must call
    /// [`commit`](Durability::commit).
    fn closed_wals_max(&self) -> usize {
        usize::MAX
    }
}

/// Access to values that may be separated from their keys, in a value log. The default methods are
/// those of a store without key-value separation.
pub trait ValueStore: StoreInfo {
    /// Returns whether values may be stored separately from their keys. If so, cursors must
    /// [fetch](Cursor::fetch) values.
    fn separates_values(&self) -> bool {
        false
    }
    /// Creates a WAL of raw bytes into which tables may point. It is an error if a WAL with that
    /// number exists.
    fn create_segment(&self, log: LogId) -> Result<Box<dyn SegmentWriter>> {
        Err(Error::Unsupported(format!("{} has no value log, so no segment for WAL {log}", self.name())))
    }
    /// Opens a segment for reads at any offset, including bytes that are appended later.
    fn open_segment(&self, object: ObjectId) -> Result<Arc<dyn SegmentReader>> {
        Err(Error::Unsupported(format!("{} has no value log, so no {object:?}", self.name())))
    }
    /// Informs storage that no further flush job will [depend](TableSink::rely_on) on WAL `log`.
    /// The reason is that the memtable of the WAL is flushed, or that the WAL has no entry that
    /// tables need.
    fn wal_flushed(&self, log: LogId) {
        let _ = log;
    }
    /// Returns the value of the put of key `user` with sequence number `seq`. `stored` is the
    /// stored form of the value in a table or memtable: the value itself or a reference to it. May
    /// be called only in a store whose [`Layout::values`](terrace_format::Layout) separates keys
    /// and values. The value is always verified.
    fn value(&self, user: &[u8], seq: SeqNo, stored: Bytes) -> Result<Bytes> {
        let _ = (user, seq);
        Ok(stored)
    }
    /// Returns a value as [`value`](ValueStore::value) does, for a scan. `stretches` is the read
    /// coalescer of the scan, which reads adjacent values together.
    fn next_value(&self, user: &[u8], seq: SeqNo, stored: &[u8], stretches: &mut ReadCoalescer) -> Result<Bytes> {
        let _ = stretches;
        self.value(user, seq, Bytes::from(stored.to_vec()))
    }
    /// Hints that [`value`](ValueStore::value) will soon be called with `stored`, so that the
    /// value can be read ahead.
    fn prefetch_value(&self, stored: &[u8]) {
        let _ = stored;
    }
    /// Makes `segments` the victims of value-log GC. From this call on, jobs relocate the live
    /// values of these segments, so that finally no table points into them.
    fn set_gc_victims(&self, segments: BTreeSet<ObjectId>) {
        let _ = segments;
    }
    /// Returns the victims (segments that GC empties) with values that jobs could not read since
    /// the last call of this function. Tables still point to these values.
    fn unrelocated_victims(&self) -> BTreeSet<ObjectId> {
        BTreeSet::new()
    }
    /// Opens a segment of relocated values as a log. The log returns each value as a batch with one
    /// put, which has the sequence number of the original put.
    fn salvage_values(&self, segment: SegmentId) -> Result<Box<dyn LogReader>> {
        Err(Error::Unsupported(format!("{} has no value log, so no segment {segment}", self.name())))
    }
}

/// The SSTables of a store.
pub trait TableStore: StoreInfo {
    /// Starts to write the outputs of a job.
    fn begin(&self, hint: Hint) -> Result<Box<dyn TableSink>>;
    /// Opens a table. Storage may close the table while it is not in use, and opens it again when
    /// needed. The caller keeps the result as long as the table may be read.
    fn open_table(&self, meta: &TableMeta) -> Result<Arc<dyn Table>>;
    /// Opens a table that may be damaged, to read its intact part. Of `table`, only the fields that
    /// locate the table are used.
    fn salvage(&self, table: &TableMeta) -> Result<Box<dyn Salvage>>;
    /// Returns the tables that a bundle (one file with several SSTables) lists in its own
    /// directory, without tables whose space was deallocated. The returned metadata has no key
    /// bounds.
    fn tables_in(&self, _bundle: TableId) -> Result<Vec<TableMeta>> {
        Ok(Vec::new())
    }
    /// Deallocates the space of tables that are not in `tables` but share a bundle with one of
    /// them. The engine calls this function when it opens a store, because then no version needs
    /// any table that is not in `tables`.
    fn trim(&self, _tables: &[TableMeta]) -> Result<()> {
        Ok(())
    }
}

/// The root (`CURRENT`) and the format file of a store.
pub trait RootStore: StoreInfo {
    /// Replaces the root atomically and durably. From then on the store begins at `manifest`.
    fn publish_root(&self, manifest: LogId) -> Result<()>;
    /// Returns the manifest at which the store begins; `None` if there is no store yet.
    fn load_root(&self) -> Result<Option<LogId>>;
    /// Writes the text of the format file durably. The engine must call this method before it uses
    /// a feature that the text announces for the first time.
    fn publish_format_file(&self, text: &str) -> Result<()>;
    /// Returns the text of the format file; `None` if there is none.
    fn load_format_file(&self) -> Result<Option<String>>;
}

/// The files of all objects of a store, and its disk space.
pub trait ObjectStore: StoreInfo {
    /// Lists all objects. The list is sufficient for a repair without a manifest. Files with
    /// unknown names are not listed and not touched.
    fn list(&self) -> Result<Vec<Listed>>;
    /// Removes an object. The removal of a table in a bundle deallocates the table's space, unless
    /// it is the last table of the bundle. An absent object is no error. If a WAL has two files,
    /// only the file of `object` is removed. The caller must follow the removal rule of
    /// docs/durability.md.
    fn remove(&self, object: ObjectId) -> Result<()>;
    /// Creates a durable copy of `object` under `lost/`; for a WAL, a copy of all its files. The
    /// object itself stays.
    fn set_aside(&self, object: ObjectId) -> Result<()>;
    /// Returns the names of the copies in `lost/`, sorted.
    fn lost(&self) -> Result<Vec<String>>;
    /// Returns the file of `object`: a table that has its own file, a bundle, or a finished
    /// segment. Another store can [`adopt`](ObjectStore::adopt) the file.
    fn file_of(&self, object: ObjectId) -> Result<TableFile>;
    /// Adopts (takes over) finished tables, bundles and segments under the given numbers, by hard
    /// links if possible, else by copies. The files are synced and survive a power cut at return,
    /// unless the durability mode is `none`. The sync is made even if the other store has synced
    /// the files.
    fn adopt(&self, files: &[(TableFile, ObjectId)]) -> Result<Adopted>;
    /// Returns the number of bytes that can still be written; `None` if unknown.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// Allocates a reserve of `bytes` bytes of disk space, which replaces a reserve of another
    /// size; 0 releases the reserve. Does nothing if the medium cannot allocate space without
    /// writing.
    fn reserve(&self, bytes: u64) -> Result<()>;
}

/// Reports and controls when objects survive a power cut.
pub trait Durability: StoreInfo {
    /// Returns the name of the durability mode, for `stats` and `doctor`.
    fn durability_mode(&self) -> &'static str;
    /// Returns whether anything is guaranteed to survive a power cut; false in the durability mode
    /// `none`.
    fn promises(&self) -> bool;
    /// Makes `tables` durable if the store was last used in the durability mode `none`, in which
    /// nothing is synced. The engine must call this method when it opens the store, before it
    /// reports the tables as durable.
    fn settle(&self, tables: &[TableMeta]) -> Result<()>;
    /// Makes the manifest `id` durable. This manifest was written before the store was opened, and
    /// the root names it.
    fn sync_manifest(&self, id: LogId) -> Result<()>;
    /// Returns whether tables may be lost in a power cut, because the store was last used in the
    /// durability mode `none`.
    fn unsynced(&self) -> bool;
    /// Cancels the sync of a table that became obsolete before the version edit that adds it was
    /// committed to the manifest. If the sync has not begun, it is never made, and the caller must
    /// [remove](ObjectStore::remove) the table. Returns `None` if the sync has begun. The call does
    /// no I/O; the drop of the result closes the file, which is I/O.
    fn cancel_sync(&self, _table: &TableMeta) -> Option<Finished> {
        None
    }
    /// Returns whether durability handles become durable by commits that the file system makes
    /// anyway. These commits come later than a call of [`commit`](Durability::commit) could make
    /// the handles durable, but a commit is forced only when a limit is reached, such as that of
    /// unsynced bytes.
    fn waits_for_fs_commit(&self) -> bool {
        false
    }
    /// Executes the syncs that the durability mode requires now for pending durability handles.
    /// Returns false if no handle is pending. The call returns when the syncs have ended.
    fn advance(&self) -> Result<bool>;
    /// Forces a batch sync. When the call returns, every durability handle that existed before the
    /// call is durable or has failed.
    fn commit(&self) -> Result<()>;
}

/// The complete interface of a store: the sum of the traits above.
pub trait Storage: LogStore + ValueStore + TableStore + RootStore + ObjectStore + Durability {}

impl<T: LogStore + ValueStore + TableStore + RootStore + ObjectStore + Durability> Storage for T {}
