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
    layout::read_marker,
    placement::{
        Bytes, Hint, Limits, Listed, LogKind, LogReader, LogWriter, ObjectId, ReadHow, Salvage, SegmentReader, Storage,
        Table, TableMeta, TableSink,
    },
};
use parking_lot::Mutex;
use std::{
    borrow::Cow,
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, OnceLock},
};
use terrace_format::{
    Kind, Layout, LogId, SegmentId, SeqNo, TableId, key,
    value_log::{Framer, StoredValue, ValuePointer, WAL_SIDECAR, read_entry},
};

mod build;
mod log;
mod merged;

/// A store with its values in a log.
pub struct ValueLog {
    shared: Arc<Shared>,
}

/// What the placement shares with the logs and builds that it hands out.
struct Shared {
    inner: Box<dyn Storage>,
    setup: StorageConfig,
    segments: Arc<OpenFiles<ObjectId, Arc<dyn SegmentReader>>>,
    /// Values that builds keep are moved out of these. A leaf lock; no I/O under it.
    condemned: Mutex<Arc<BTreeSet<ObjectId>>>,
    /// See [`Storage::unmoved`]. A leaf lock; no I/O under it.
    unmoved: Mutex<BTreeSet<ObjectId>>,
    /// See [`Shared::has_small_log`]; once it is known.
    wal_sidecar: OnceLock<bool>,
}

impl ValueLog {
    /// Over what stores tables and segments, of which as many are kept open as `share` allows.
    pub fn new(inner: Box<dyn Storage>, share: Arc<Share>, setup: &StorageConfig) -> ValueLog {
        let segments = OpenFiles::new(share);
        let (condemned, unmoved, wal_sidecar) = (Mutex::default(), Mutex::default(), OnceLock::new());
        ValueLog { shared: Arc::new(Shared { inner, setup: setup.clone(), segments, condemned, unmoved, wal_sidecar }) }
    }
}

impl Shared {
    /// Makes the frames of segment number `segment`.
    fn framer(&self, segment: u64) -> Framer {
        let StorageConfig { codec, zstd_level, value_log_threshold, .. } = self.setup;
        Framer::new(segment, codec, zstd_level, value_log_threshold)
    }

    /// Whether logs may have a part without values that stay: only where the marker says so, as a reader must look for it.
    fn has_small_log(&self) -> Result<bool> {
        if let Some(known) = self.wal_sidecar.get() {
            return Ok(*known);
        }
        let marker = self.inner.load_marker()?.map(|text| read_marker(&self.inner.name(), &text)).transpose()?;
        let announced = marker.is_some_and(|marker| marker.features.iter().any(|feature| feature == WAL_SIDECAR));
        Ok(*self.wal_sidecar.get_or_init(|| self.setup.wal_sidecar && announced))
    }

    /// The segment, opened if need be.
    fn segment(&self, object: ObjectId) -> Result<Arc<dyn SegmentReader>> {
        self.segments.get(&object, || self.inner.open_segment(object))
    }

    /// Takes `stored` apart.
    fn parse<'a>(&self, stored: &'a [u8]) -> Result<StoredValue<'a>> {
        StoredValue::parse(stored)
            .map_err(|found| Error::corrupt(format!("a table of {}", self.inner.name()), 0, found))
    }

    /// Whether an entry that is to be built has a value; its key may come from damage.
    fn is_put(&self, internal: &[u8]) -> Result<bool> {
        let broken = |found| Error::corrupt(format!("an entry for a table of {}", self.inner.name()), 0, found);
        Ok(key::parse(internal).map_err(broken)?.kind == Kind::Put)
    }

    /// The segment that `pointer` points into.
    fn segment_of(&self, pointer: &ValuePointer) -> Result<Arc<dyn SegmentReader>> {
        self.segment(ObjectId::from(pointer)).map_err(|error| match error {
            Error::Missing { what, object } => {
                let object =
                    format!("{object}, of which a value needs {} bytes from byte {} on", pointer.bytes, pointer.offset);
                Error::Missing { what, object }
            }
            other => other,
        })
    }

    /// The bytes of the entry at `pointer`, not verified: where they are mapped, if `in_place`, or read by a call, to which what cannot be had
    /// is an error.
    fn entry(&self, pointer: &ValuePointer, in_place: bool) -> Result<Bytes> {
        let segment = self.segment_of(pointer)?;
        let shown = segment.shown().filter(|_| in_place);
        if let Some(entry) = shown.and_then(|all| all.part_at(&place_of(pointer))) {
            return Ok(entry);
        }
        Ok(Bytes::from(Arc::new(segment.read(pointer.offset, pointer.bytes)?)))
    }

    /// The value in `entry` at `pointer`, which must be of `user` and `seq`; not copied unless it is compressed.
    fn value_of(&self, pointer: &ValuePointer, entry: Bytes, user: &[u8], seq: SeqNo) -> Result<Bytes> {
        let value = match self.value_in(pointer, &entry, user, seq)? {
            Cow::Owned(value) => return Ok(Bytes::from(value)),
            Cow::Borrowed(value) => value.len(), // it ends the entry
        };
        let range = entry.len() - value..entry.len();
        Ok(entry.into_part(range).expect("it was found in there"))
    }

    /// The value in the entry of `user` and `seq` at `pointer`, of which `bytes` were read.
    fn value_in<'a>(&self, pointer: &ValuePointer, bytes: &'a [u8], user: &[u8], seq: SeqNo) -> Result<Cow<'a, [u8]>> {
        let corrupt = |found| Error::corrupt(self.inner.place_of(ObjectId::from(pointer)), pointer.offset, found);
        read_entry(bytes, |key| self.setup.order.user(key, user).is_eq(), seq).map_err(corrupt)
    }
}

impl Storage for ValueLog {
    fn name(&self) -> String {
        self.shared.inner.name()
    }

    fn layout(&self) -> Layout {
        self.shared.inner.layout()
    }

    fn place_of(&self, object: ObjectId) -> String {
        self.shared.inner.place_of(object)
    }

    fn durability_mode(&self) -> &'static str {
        self.shared.inner.durability_mode()
    }

    fn promises(&self) -> bool {
        self.shared.inner.promises()
    }

    fn limits(&self) -> Limits {
        let inner = self.shared.inner.limits();
        // A table's value may be one with its form in front; a codec's number may stand before a compressed one.
        Limits { value_bytes_max: inner.value_bytes_max - 1, ..inner }
    }

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

    fn begin(&self, hint: Hint) -> Result<Box<dyn TableSink>> {
        build::begin(self.shared.clone(), hint)
    }

    fn open_table(&self, meta: &TableMeta) -> Result<Arc<dyn Table>> {
        self.shared.inner.open_table(meta)
    }

    fn salvage(&self, table: &TableMeta) -> Result<Box<dyn Salvage>> {
        self.shared.inner.salvage(table)
    }

    fn salvage_values(&self, segment: SegmentId) -> Result<Box<dyn LogReader>> {
        log::open_any(&self.shared, ObjectId::Segment(segment))
    }

    fn tables_in(&self, bundle: TableId) -> Result<Vec<TableMeta>> {
        self.shared.inner.tables_in(bundle)
    }

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

    fn list(&self) -> Result<Vec<Listed>> {
        self.shared.inner.list()
    }

    fn remove(&self, object: ObjectId) -> Result<()> {
        self.shared.segments.forget(|open| *open == object);
        self.shared.inner.remove(object)
    }

    fn trim(&self, tables: &[TableMeta]) -> Result<()> {
        self.shared.inner.trim(tables)
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

    fn settle(&self, tables: &[TableMeta]) -> Result<()> {
        self.shared.inner.settle(tables)
    }

    fn settle_log(&self, log: LogId) -> Result<()> {
        self.shared.inner.settle_log(log)
    }

    fn unsynced(&self) -> bool {
        self.shared.inner.unsynced()
    }

    fn closed_logs_max(&self) -> usize {
        self.shared.inner.closed_logs_max().div_ceil(2) // as a log may have two files
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

    fn budget(&self) -> &Arc<Budget> {
        self.shared.inner.budget()
    }

    fn traffic(&self) -> &IoStats {
        self.shared.inner.traffic()
    }
}

/// Where in its segment the entry lies.
fn place_of(pointer: &ValuePointer) -> Range<u64> {
    pointer.offset..pointer.offset.saturating_add(pointer.bytes)
}
