//! Values apart from their keys: the write-ahead log keeps them, and tables point into it.
//!
//! Wraps another backend, which stores tables and the bytes of segments. What is `stored` in tables and memtables is a value or a
//! pointer (`terrace_format::value_log`), never the value alone. A log's segment outlives the log: it goes when no table points
//! into it any more. Batches whose values all go into tables are in a small log beside it, which is needed no longer than the memtable.
//! Compactions move values out of condemned segments into one that belongs to their build, in the order of keys.
use super::{open_files::OpenFiles, shares::Share};
use crate::{
    Adopted, Budget, Error, IoStats, ReadCoalescer, Result, StorageConfig, TableFile,
    durability::Finished,
    placement::{
        Bytes, Durability, Hint, Limits, Listed, LogKind, LogReader, LogStore, LogWriter, ObjectId, ObjectStore,
        ReadHow, RootStore, Salvage, SegmentReader, Storage, StoreInfo, Table, TableMeta, TableSink, TableStore,
        ValueStore,
    },
};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};
use terrace_format::{Layout, LogId, SegmentId, SeqNo, TableId, value_log::StoredValue};

mod build;
mod log;
mod merged;
mod shared;

use shared::{Shared, place_of};

/// A store with its values in a log.
pub struct ValueLog {
    shared: Arc<Shared>,
}

impl ValueLog {
    /// Over what stores tables and segments, of which as many are kept open as `share` allows.
    pub fn new(inner: Box<dyn Storage>, share: Arc<Share>, setup: &StorageConfig) -> ValueLog {
        let segments = OpenFiles::new(share);
        let (condemned, unmoved, wal_sidecar) = (Mutex::default(), Mutex::default(), OnceLock::new());
        ValueLog { shared: Arc::new(Shared { inner, setup: setup.clone(), segments, condemned, unmoved, wal_sidecar }) }
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
        // A table's value may be one with its form in front; a codec's number may stand before a compressed one.
        Limits { value_bytes_max: inner.value_bytes_max - 1, ..inner }
    }

    fn budget(&self) -> &Arc<Budget> {
        self.shared.inner.budget()
    }

    fn traffic(&self) -> &IoStats {
        self.shared.inner.traffic()
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

    fn settle_log(&self, log: LogId) -> Result<()> {
        self.shared.inner.settle_log(log)
    }

    fn closed_logs_max(&self) -> usize {
        self.shared.inner.closed_logs_max().div_ceil(2) // as a log may have two files
    }
}

impl ValueStore for ValueLog {
    fn log_flushed(&self, log: LogId) {
        self.shared.inner.log_flushed(log);
    }

    fn open_segment(&self, object: ObjectId) -> Result<Arc<dyn SegmentReader>> {
        self.shared.inner.open_segment(object)
    }

    fn value(&self, user: &[u8], seq: SeqNo, stored: Bytes, how: ReadHow) -> Result<Bytes> {
        match self.shared.parse(&stored)? {
            StoredValue::Inline(value) => {
                let range = stored.len() - value.len()..stored.len();
                Ok(stored.part(range).unwrap_or_else(|| Bytes::from(value.to_vec())))
            }
            StoredValue::At(pointer) => {
                let entry = self.shared.entry(&pointer, how.fill_cache)?;
                self.shared.value_of(&pointer, entry, user, seq)
            }
        }
    }

    fn next_value(
        &self,
        user: &[u8],
        seq: SeqNo,
        stored: &[u8],
        how: ReadHow,
        stretches: &mut ReadCoalescer,
    ) -> Result<Bytes> {
        match self.shared.parse(stored)? {
            StoredValue::Inline(_) => self.value(user, seq, Bytes::from(stored.to_vec()), how),
            StoredValue::At(pointer) => {
                let (object, at) = (ObjectId::from(&pointer), place_of(&pointer));
                let entry = stretches.entry(object, at, how.fill_cache, || self.shared.segment_of(&pointer))?;
                self.shared.value_of(&pointer, entry, user, seq)
            }
        }
    }

    fn expect_value(&self, stored: &[u8]) {
        if let Ok(StoredValue::At(pointer)) = StoredValue::parse(stored)
            && let Ok(segment) = self.shared.segment(ObjectId::from(&pointer))
        {
            segment.expect(pointer.offset, pointer.bytes);
        }
    }

    fn condemn(&self, segments: BTreeSet<ObjectId>) {
        *self.shared.condemned.lock() = Arc::new(segments);
    }

    fn unmoved(&self) -> BTreeSet<ObjectId> {
        std::mem::take(&mut *self.shared.unmoved.lock())
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

    fn publish_marker(&self, text: &str) -> Result<()> {
        self.shared.inner.publish_marker(text)
    }

    fn load_marker(&self) -> Result<Option<String>> {
        self.shared.inner.load_marker()
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
        let whole = self.shared.inner.set_aside(object);
        let ObjectId::Wal(log) = object else { return whole };
        // A log may have either part, or both.
        match (whole, self.shared.inner.set_aside(ObjectId::SmallLog(log))) {
            (whole, Err(Error::Missing { .. })) => whole,
            (Err(Error::Missing { .. }), small) => small,
            (whole, small) => whole.and(small),
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

    fn is_patient(&self) -> bool {
        self.shared.inner.is_patient()
    }

    fn settle_manifest(&self, id: LogId) -> Result<()> {
        self.shared.inner.settle_manifest(id)
    }

    fn give_up(&self, table: &TableMeta) -> Option<Finished> {
        self.shared.inner.give_up(table)
    }

    fn advance(&self) -> Result<bool> {
        self.shared.inner.advance()
    }

    fn commit(&self) -> Result<()> {
        self.shared.inner.commit()
    }
}
