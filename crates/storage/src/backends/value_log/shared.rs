//! What a value log shares with the logs and builds that it hands out.
use crate::{
    Error, Result, StorageConfig,
    backends::layout::read_marker,
    backends::open_files::OpenFiles,
    placement::{Bytes, ObjectId, SegmentReader, Storage},
};
use parking_lot::Mutex;
use std::{
    borrow::Cow,
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, OnceLock},
};
use terrace_format::{
    Kind, SeqNo, key,
    value_log::{Framer, StoredValue, ValuePointer, WAL_SIDECAR, read_entry},
};

/// What the placement shares with the logs and builds that it hands out.
pub(super) struct Shared {
    pub inner: Box<dyn Storage>,
    pub setup: StorageConfig,
    pub segments: Arc<OpenFiles<ObjectId, Arc<dyn SegmentReader>>>,
    /// Values that builds keep are moved out of these. A leaf lock; no I/O under it.
    pub condemned: Mutex<Arc<BTreeSet<ObjectId>>>,
    /// See [`Storage::unmoved`]. A leaf lock; no I/O under it.
    pub unmoved: Mutex<BTreeSet<ObjectId>>,
    /// See [`Shared::has_small_log`]; once it is known.
    pub wal_sidecar: OnceLock<bool>,
}

impl Shared {
    /// Makes the frames of segment number `segment`.
    pub fn framer(&self, segment: u64) -> Framer {
        let StorageConfig { codec, zstd_level, value_log_threshold, .. } = self.setup;
        Framer::new(segment, codec, zstd_level, value_log_threshold)
    }

    /// Whether logs may have a part without values that stay: only where the marker says so, as a reader must look for it.
    pub fn has_small_log(&self) -> Result<bool> {
        if let Some(known) = self.wal_sidecar.get() {
            return Ok(*known);
        }
        let marker = self.inner.load_marker()?.map(|text| read_marker(&self.inner.name(), &text)).transpose()?;
        let announced = marker.is_some_and(|marker| marker.features.iter().any(|feature| feature == WAL_SIDECAR));
        Ok(*self.wal_sidecar.get_or_init(|| self.setup.wal_sidecar && announced))
    }

    /// The segment, opened if need be.
    pub fn segment(&self, object: ObjectId) -> Result<Arc<dyn SegmentReader>> {
        self.segments.get(&object, || self.inner.open_segment(object))
    }

    /// Takes `stored` apart.
    pub fn parse<'a>(&self, stored: &'a [u8]) -> Result<StoredValue<'a>> {
        StoredValue::parse(stored)
            .map_err(|found| Error::corrupt(format!("a table of {}", self.inner.name()), 0, found))
    }

    /// Whether an entry that is to be built has a value; its key may come from damage.
    pub fn is_put(&self, internal: &[u8]) -> Result<bool> {
        let broken = |found| Error::corrupt(format!("an entry for a table of {}", self.inner.name()), 0, found);
        Ok(key::parse(internal).map_err(broken)?.kind == Kind::Put)
    }

    /// The segment that `pointer` points into.
    pub fn segment_of(&self, pointer: &ValuePointer) -> Result<Arc<dyn SegmentReader>> {
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
    pub fn entry(&self, pointer: &ValuePointer, in_place: bool) -> Result<Bytes> {
        let segment = self.segment_of(pointer)?;
        let shown = segment.shown().filter(|_| in_place);
        if let Some(entry) = shown.and_then(|all| all.part_at(&place_of(pointer))) {
            return Ok(entry);
        }
        Ok(Bytes::from(Arc::new(segment.read(pointer.offset, pointer.bytes)?)))
    }

    /// The value in `entry` at `pointer`, which must be of `user` and `seq`; not copied unless it is compressed.
    pub fn value_of(&self, pointer: &ValuePointer, entry: Bytes, user: &[u8], seq: SeqNo) -> Result<Bytes> {
        let value = match self.value_in(pointer, &entry, user, seq)? {
            Cow::Owned(value) => return Ok(Bytes::from(value)),
            Cow::Borrowed(value) => value.len(), // it ends the entry
        };
        let range = entry.len() - value..entry.len();
        Ok(entry.into_part(range).expect("it was found in there"))
    }

    /// The value in the entry of `user` and `seq` at `pointer`, of which `bytes` were read.
    pub fn value_in<'a>(
        &self,
        pointer: &ValuePointer,
        bytes: &'a [u8],
        user: &[u8],
        seq: SeqNo,
    ) -> Result<Cow<'a, [u8]>> {
        let corrupt = |found| Error::corrupt(self.inner.place_of(ObjectId::from(pointer)), pointer.offset, found);
        read_entry(bytes, |key| self.setup.order.user(key, user).is_eq(), seq).map_err(corrupt)
    }
}

/// Where in its segment the entry lies.
pub(super) fn place_of(pointer: &ValuePointer) -> Range<u64> {
    pointer.offset..pointer.offset.saturating_add(pointer.bytes)
}
