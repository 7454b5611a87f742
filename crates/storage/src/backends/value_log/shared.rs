//! The state that a store with a value log shares with its WALs and its running jobs.
use crate::{
    Error, Result, StorageConfig,
    backends::layout::decode_format_file,
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

/// The state that a store shares with its WALs and its running jobs.
pub(super) struct ValueLogInner {
    pub inner: Box<dyn Storage>,
    pub setup: StorageConfig,
    pub segments: Arc<OpenFiles<ObjectId, Arc<dyn SegmentReader>>>,
    /// The GC victims: segments out of which jobs relocate values. While a thread holds this lock,
    /// it takes no other lock and does no I/O.
    pub condemned: Mutex<Arc<BTreeSet<ObjectId>>>,
    /// The GC victims with values that jobs could not read; see
    /// [`ValueStore::unrelocated_victims`](crate::placement::ValueStore::unrelocated_victims).
    /// While a thread holds this lock, it takes no other lock and does no I/O.
    pub unrelocated_victims: Mutex<BTreeSet<ObjectId>>,
    /// The result of [`ValueLogInner::has_sidecar`], once it is known.
    pub wal_sidecar: OnceLock<bool>,
}

impl ValueLogInner {
    /// Returns an encoder for frames of segment `segment`.
    pub fn framer(&self, segment: u64) -> Framer {
        let StorageConfig { codec, zstd_level, value_log_threshold, .. } = self.setup;
        Framer::new(segment, codec, zstd_level, value_log_threshold)
    }

    /// Returns whether new WALs may have a sidecar. A sidecar is allowed only if the format file
    /// declares the feature, because readers then search for sidecars.
    pub fn has_sidecar(&self) -> Result<bool> {
        if let Some(known) = self.wal_sidecar.get() {
            return Ok(*known);
        }
        let format_file =
            self.inner.load_format_file()?.map(|text| decode_format_file(&self.inner.name(), &text)).transpose()?;
        let announced = format_file.is_some_and(|file| file.features.iter().any(|feature| feature == WAL_SIDECAR));
        Ok(*self.wal_sidecar.get_or_init(|| self.setup.wal_sidecar && announced))
    }

    /// Returns the segment `object`. Opens the segment if it is not open.
    pub fn segment(&self, object: ObjectId) -> Result<Arc<dyn SegmentReader>> {
        self.segments.get(&object, || self.inner.open_segment(object))
    }

    /// Decodes `stored`, the stored form of a value: an inline value or a value pointer.
    pub fn parse<'a>(&self, stored: &'a [u8]) -> Result<StoredValue<'a>> {
        StoredValue::parse(stored)
            .map_err(|found| Error::corrupt(format!("a table of {}", self.inner.name()), 0, found))
    }

    /// Returns whether the entry with the key `internal` is a put, and therefore has a value.
    /// Returns an error if the key is corrupt.
    pub fn is_put(&self, internal: &[u8]) -> Result<bool> {
        let corrupt = |found| Error::corrupt(format!("an entry for a table of {}", self.inner.name()), 0, found);
        Ok(key::parse(internal).map_err(corrupt)?.kind == Kind::Put)
    }

    /// Returns the segment into which `pointer` points.
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

    /// Reads the entry at `pointer` without verifying it.
    pub fn entry(&self, pointer: &ValuePointer) -> Result<Bytes> {
        let segment = self.segment_of(pointer)?;
        Ok(Bytes::from(Arc::new(segment.read(pointer.offset, pointer.bytes)?)))
    }

    /// Returns the value in `entry`, the entry at `pointer`. The entry must have key `user` and
    /// sequence number `seq`. Only a compressed value is copied.
    pub fn value_of(&self, pointer: &ValuePointer, entry: Bytes, user: &[u8], seq: SeqNo) -> Result<Bytes> {
        let value = match self.value_in(pointer, &entry, user, seq)? {
            Cow::Owned(value) => return Ok(Bytes::from(value)),
            // An uncompressed value is the last part of the entry, so this function returns that
            // part of the entry without a copy.
            Cow::Borrowed(value) => value.len(),
        };
        let range = entry.len() - value..entry.len();
        Ok(entry.into_part(range).expect("it was found in there"))
    }

    /// Decodes and verifies the value in `bytes`, the entry at `pointer`, which must have the key
    /// `user` and the sequence number `seq`.
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

/// Returns the range of bytes of an entry in its segment.
pub(super) fn range_of(pointer: &ValuePointer) -> Range<u64> {
    pointer.offset..pointer.offset.saturating_add(pointer.bytes)
}
