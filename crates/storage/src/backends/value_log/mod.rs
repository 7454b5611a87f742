//! Key-value separation. Large values stay in the WAL. The WAL becomes a segment of the value log,
//! and tables point into it.
//!
//! ```text
//! batch ──┬─▶ WAL 7, also segment 7 of the value log ◀─── value pointers ───┐
//!         ├─▶ WAL sidecar 7 (batches without separated values)              │
//!         └─▶ memtable ── flush ──▶ SSTable: key → inline value or pointer ─┘
//!
//! GC: segment 7 ── a compaction relocates its live values ──▶ segment 12, in key order
//! ```
//! This backend wraps another backend, which stores the tables and the bytes of segments. Tables
//! and memtables have values in `stored` form: either an inline value or a value pointer
//! (`terrace_format::value_log`), never the bytes of the value alone.
//!
//! - A segment stays after its WAL is obsolete. The segment is obsolete when no table points to
//!   it.
//! - Batches without separated values are in the WAL sidecar. The sidecar is obsolete when the
//!   memtable is flushed.
//! - Compactions relocate live values from GC victims (segments that GC wants to remove) to a
//!   segment that the compaction writes.
use super::{open_files::OpenFiles, shares::Share};
use crate::{
    Adopted, Budget, Error, IoStats, ReadCoalescer, Result, StorageConfig, TableFile,
    durability::Finished,
    placement::{
        Bytes, Durability, Hint, Limits, Listed, LogKind, LogReader, LogStore, LogWriter, ObjectId, ObjectStore,
        RootStore, Salvage, SegmentReader, Storage, StoreInfo, Table, TableMeta, TableSink, TableStore, ValueStore,
    },
};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};
use terrace_format::{Layout, LogId, SegmentId, SeqNo, TableId, value_log::StoredValue};
use terrace_vfs::TextLog;

mod build;
mod log;
mod merged;
mod shared;

use shared::{ValueLogInner, range_of};

/// A store whose values are separated from their keys.
pub struct ValueLog {
    shared: Arc<ValueLogInner>,
}

impl ValueLog {
    /// Wraps a backend that stores tables and segments. `share` limits the number of open segments.
    pub fn new(inner: Box<dyn Storage>, share: Arc<Share>, setup: &StorageConfig) -> ValueLog {
        let segments = OpenFiles::new(share);
        let (condemned, unrelocated_victims, wal_sidecar) = (Mutex::default(), Mutex::default(), OnceLock::new());
        ValueLog {
            shared: Arc::new(ValueLogInner {
                inner,
                setup: setup.clone(),
                segments,
                condemned,
                unrelocated_victims,
                wal_sidecar,
            }),
        }
    }
}

impl StoreInfo for ValueLog {
    fn name(&self) -> String {
        self.shared.inner.name()
    }

    fn layout(&self) -> Layout {
        self.shared.inner.layout()
    }

    fn place_of(&self, object: ObjectId) -> String {
        self.shared.inner.place_of(object)
    }

    fn limits(&self) -> Limits {
        let inner = self.shared.inner.limits();
        // The stored form of an inline value begins with one extra byte: a marker, or the codec of
        // a compressed value. The largest value is therefore one byte smaller than in the inner
        // backend.
        Limits { value_bytes_max: inner.value_bytes_max - 1, ..inner }
    }

    fn budget(&self) -> &Arc<Budget> {
        self.shared.inner.budget()
    }

    fn io_stats(&self) -> &IoStats {
        self.shared.inner.io_stats()
    }

    fn text_log(&self) -> Option<TextLog> {
        self.shared.inner.text_log()
    }
}

impl LogStore for ValueLog {
    fn create_log(&self, id: LogId, kind: LogKind, first: &[u8]) -> Result<Box<dyn LogWriter>> {
        match kind {
            LogKind::Wal => log::create(self.shared.clone(), id, first),
            LogKind::Manifest => self.shared.inner.create_log(id, kind, first),
        }
    }

    fn open_log(&self, id: LogId, kind: LogKind) -> Result<Box<dyn LogReader>> {
        match kind {
            LogKind::Wal => log::open(&self.shared, id),
            LogKind::Manifest => self.shared.inner.open_log(id, kind),
        }
    }

    fn prepare_replay(&self, log: LogId) -> Result<()> {
        self.shared.inner.prepare_replay(log)
    }

    fn closed_wals_max(&self) -> usize {
        self.shared.inner.closed_wals_max().div_ceil(2) // a WAL may have two files
    }
}

impl ValueStore for ValueLog {
    fn wal_flushed(&self, log: LogId) {
        self.shared.inner.wal_flushed(log);
    }

    fn open_segment(&self, object: ObjectId) -> Result<Arc<dyn SegmentReader>> {
        self.shared.inner.open_segment(object)
    }

    fn value(&self, user: &[u8], seq: SeqNo, stored: Bytes) -> Result<Bytes> {
        match self.shared.parse(&stored)? {
            StoredValue::Inline(value) => {
                let range = stored.len() - value.len()..stored.len();
                Ok(stored.into_part(range).expect("the value is the end of the stored bytes"))
            }
            StoredValue::At(pointer) => {
                let entry = self.shared.entry(&pointer)?;
                self.shared.value_of(&pointer, entry, user, seq)
            }
        }
    }

    fn next_value(&self, user: &[u8], seq: SeqNo, stored: &[u8], stretches: &mut ReadCoalescer) -> Result<Bytes> {
        match self.shared.parse(stored)? {
            StoredValue::Inline(_) => self.value(user, seq, Bytes::from(stored.to_vec())),
            StoredValue::At(pointer) => {
                let (object, at) = (ObjectId::from(&pointer), range_of(&pointer));
                let entry = stretches.entry(object, at, || self.shared.segment_of(&pointer))?;
                self.shared.value_of(&pointer, entry, user, seq)
            }
        }
    }

    fn prefetch_value(&self, stored: &[u8]) {
        if let Ok(StoredValue::At(pointer)) = StoredValue::parse(stored)
            && let Ok(segment) = self.shared.segment(ObjectId::from(&pointer))
        {
            segment.expect(pointer.offset, pointer.bytes);
        }
    }

    fn set_gc_victims(&self, segments: BTreeSet<ObjectId>) {
        *self.shared.condemned.lock() = Arc::new(segments);
    }

    fn unrelocated_victims(&self) -> BTreeSet<ObjectId> {
        std::mem::take(&mut *self.shared.unrelocated_victims.lock())
    }

    fn salvage_values(&self, segment: SegmentId) -> Result<Box<dyn LogReader>> {
        log::open_any(&self.shared, ObjectId::Segment(segment))
    }
}

impl TableStore for ValueLog {
    fn begin(&self, hint: Hint) -> Result<Box<dyn TableSink>> {
        build::begin(self.shared.clone(), hint)
    }

    fn open_table(&self, meta: &TableMeta) -> Result<Arc<dyn Table>> {
        self.shared.inner.open_table(meta)
    }

    fn salvage(&self, table: &TableMeta) -> Result<Box<dyn Salvage>> {
        self.shared.inner.salvage(table)
    }

    fn tables_in(&self, bundle: TableId) -> Result<Vec<TableMeta>> {
        self.shared.inner.tables_in(bundle)
    }

    fn trim(&self, tables: &[TableMeta]) -> Result<()> {
        self.shared.inner.trim(tables)
    }
}

impl RootStore for ValueLog {
    fn publish_root(&self, manifest: LogId) -> Result<()> {
        self.shared.inner.publish_root(manifest)
    }

    fn load_root(&self) -> Result<Option<LogId>> {
        self.shared.inner.load_root()
    }

    fn publish_format_file(&self, text: &str) -> Result<()> {
        self.shared.inner.publish_format_file(text)
    }

    fn load_format_file(&self) -> Result<Option<String>> {
        self.shared.inner.load_format_file()
    }
}

impl ObjectStore for ValueLog {
    fn list(&self) -> Result<Vec<Listed>> {
        self.shared.inner.list()
    }

    fn remove(&self, object: ObjectId) -> Result<()> {
        self.shared.segments.forget(|open| *open == object);
        self.shared.inner.remove(object)
    }

    fn lost(&self) -> Result<Vec<String>> {
        self.shared.inner.lost()
    }

    fn set_aside(&self, object: ObjectId) -> Result<()> {
        let segment = self.shared.inner.set_aside(object);
        let ObjectId::Wal(log) = object else { return segment };
        // A damaged WAL may have only one of its two files, the segment or the sidecar.
        match (segment, self.shared.inner.set_aside(ObjectId::WalSidecar(log))) {
            (segment, Err(Error::Missing { .. })) => segment,
            (Err(Error::Missing { .. }), sidecar) => sidecar,
            (segment, sidecar) => segment.and(sidecar),
        }
    }

    fn file_of(&self, object: ObjectId) -> Result<TableFile> {
        self.shared.inner.file_of(object)
    }

    fn adopt(&self, objects: &[(TableFile, ObjectId)]) -> Result<Adopted> {
        self.shared.inner.adopt(objects)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.shared.inner.free_bytes()
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        self.shared.inner.reserve(bytes)
    }
}

impl Durability for ValueLog {
    fn durability_mode(&self) -> &'static str {
        self.shared.inner.durability_mode()
    }

    fn promises(&self) -> bool {
        self.shared.inner.promises()
    }

    fn settle(&self, tables: &[TableMeta]) -> Result<()> {
        self.shared.inner.settle(tables)
    }

    fn unsynced(&self) -> bool {
        self.shared.inner.unsynced()
    }

    fn waits_for_fs_commit(&self) -> bool {
        self.shared.inner.waits_for_fs_commit()
    }

    fn sync_manifest(&self, id: LogId) -> Result<()> {
        self.shared.inner.sync_manifest(id)
    }

    fn cancel_sync(&self, table: &TableMeta) -> Option<Finished> {
        self.shared.inner.cancel_sync(table)
    }

    fn advance(&self) -> Result<bool> {
        self.shared.inner.advance()
    }

    fn commit(&self) -> Result<()> {
        self.shared.inner.commit()
    }
}
