//! Writes the tables of a job in a store with a value log: tables with value pointers. The job
//! counts the bytes that each table keeps alive in each segment, depends on the segments of WALs,
//! and relocates values out of the victims of value-log GC (the segments that GC empties).
use super::shared::ValueLogInner;
use crate::{
    DurabilityHandle, Result,
    placement::{EntryRef, Fragment, Hint, ObjectId, Origin, TableMeta, TableSink},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use terrace_format::{
    SegmentId, TableId, key,
    value_log::{Framer, StoredValue, ValuePointer, put_inline},
};

/// Starts to write the tables of a job, with value pointers.
pub(super) fn begin(shared: Arc<ValueLogInner>, hint: Hint) -> Result<Box<dyn TableSink>> {
    let inner = shared.inner.begin(hint)?;
    let gc_victims = shared.condemned.lock().clone();
    Ok(Box::new(SeparatingBuild {
        inner,
        gc_victims,
        own: None,
        refs: BTreeMap::new(),
        finished: Vec::new(),
        wal_segments: BTreeSet::new(),
        stored: Vec::new(),
        shared,
    }))
}

struct SeparatingBuild {
    shared: Arc<ValueLogInner>,
    inner: Box<dyn TableSink>,
    gc_victims: Arc<BTreeSet<ObjectId>>,
    /// The value-log segment that this job writes.
    own: Option<OwnSegment>,
    /// The segments into which the open table points, each with the number of bytes to which the
    /// table points.
    refs: BTreeMap<ObjectId, u64>,
    /// For each finished table: the segments into which it points, each with the number of bytes to
    /// which the table points.
    finished: Vec<Vec<(ObjectId, u64)>>,
    /// Segments of WALs to which memtable entries pointed.
    wal_segments: BTreeSet<ObjectId>,
    stored: Vec<u8>,
}

/// The value-log segment to which a job writes values, in key order.
struct OwnSegment {
    id: SegmentId,
    framer: Framer,
    /// Number of bytes in the segment.
    bytes: u64,
    frame: Vec<u8>,
}

impl SeparatingBuild {
    /// Counts the value at `pointer` as referenced by the open table.
    fn point(&mut self, pointer: &ValuePointer) {
        *self.refs.entry(ObjectId::from(pointer)).or_default() += pointer.kept_bytes();
    }

    /// Returns whether the segment that this job writes is full. The next table then begins a new
    /// segment.
    fn is_own_full(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.bytes >= self.shared.setup.value_log_segment_size)
    }

    /// Returns whether `value` is large enough to be stored in a segment.
    fn is_separated(&self, value: &[u8]) -> bool {
        value.len() >= self.shared.setup.value_log_threshold
    }

    /// Appends the value of `internal` to the segment that this job writes, and adds an entry with
    /// the value pointer to the open table.
    fn put_separated(&mut self, internal: &[u8], value: &[u8], origin: Origin) -> Result<()> {
        let parsed = key::apart(internal);
        let own =
            self.own.as_mut().ok_or_else(|| crate::Error::Unsupported("no table of this build is open".into()))?;
        own.frame.clear();
        if own.bytes == 0 {
            own.frame.extend_from_slice(terrace_format::value_log::MAGIC);
        }
        let at = own.framer.frame_put(parsed.user, parsed.seq, value, &mut own.frame);
        let begin = self.inner.append_to_segment(own.id, &own.frame)?;
        own.bytes = begin + own.frame.len() as u64;
        let (offset, bytes) = (begin + at.start as u64, at.len() as u64);
        let pointer = ValuePointer { moved: true, segment: own.id.0, offset, bytes };
        self.point(&pointer);
        self.stored.clear();
        pointer.put(&mut self.stored);
        self.inner.keep(EntryRef { key: internal, stored: &self.stored, origin })
    }

    /// Relocates the value at `pointer` to the segment that this job writes. If the value cannot be
    /// read, the entry keeps its old pointer, and later reads of this value report the error.
    fn relocate(&mut self, entry: EntryRef<'_>, pointer: &ValuePointer) -> Result<()> {
        let shared = self.shared.clone();
        let parsed = key::apart(entry.key);
        let Ok(bytes) = shared.entry(pointer) else { return self.keep_unreadable(entry, pointer) };
        match shared.value_in(pointer, &bytes, parsed.user, parsed.seq) {
            Ok(value) => self.put_separated(entry.key, &value, entry.origin),
            Err(_) => self.keep_unreadable(entry, pointer),
        }
    }

    /// Adds the entry of a value that cannot be relocated, because it cannot be read. Also records
    /// the segment that contains the value as a GC victim that cannot be emptied.
    fn keep_unreadable(&mut self, entry: EntryRef<'_>, pointer: &ValuePointer) -> Result<()> {
        self.shared.unrelocated_victims.lock().insert(ObjectId::from(pointer));
        self.keep_pointer(entry, pointer)
    }

    /// Adds the entry with its pointer unchanged.
    fn keep_pointer(&mut self, entry: EntryRef<'_>, pointer: &ValuePointer) -> Result<()> {
        if entry.origin == Origin::Memory {
            self.wal_segments.insert(ObjectId::from(pointer));
        }
        self.point(pointer);
        self.inner.keep(entry)
    }
}

impl TableSink for SeparatingBuild {
    fn begin_table(&mut self, id: TableId) -> Result<()> {
        self.inner.begin_table(id)?;
        if self.own.is_none() || self.is_own_full() {
            // A segment gets the number of the first table that points into it. File numbers are
            // never used twice, so no other segment has that number.
            let framer = self.shared.framer(id.0);
            self.own = Some(OwnSegment { id: SegmentId(id.0), framer, bytes: 0, frame: Vec::new() });
        }
        Ok(())
    }

    fn keep(&mut self, entry: EntryRef<'_>) -> Result<()> {
        if !self.shared.is_put(entry.key)? {
            return self.inner.keep(entry);
        }
        let pointer = match self.shared.parse(entry.stored)? {
            StoredValue::At(pointer) => pointer,
            // The value is inline although it is long enough for a segment, because its write was
            // unlogged. So this job writes the value to a segment.
            StoredValue::Inline(value) if entry.origin == Origin::Memory && self.is_separated(value) => {
                return self.put_separated(entry.key, value, entry.origin);
            }
            StoredValue::Inline(_) => return self.inner.keep(entry),
        };
        match self.gc_victims.contains(&ObjectId::from(&pointer)) {
            true => self.relocate(entry, &pointer),
            false => self.keep_pointer(entry, &pointer),
        }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let put = self.shared.is_put(key)?;
        if put && self.is_separated(value) {
            return self.put_separated(key, value, Origin::Memory);
        }
        self.stored.clear();
        if put {
            put_inline(&mut self.stored, value);
        }
        self.inner.keep(EntryRef { key, stored: &self.stored, origin: Origin::Memory })
    }

    fn rely_on(&mut self, segment: ObjectId) -> Result<()> {
        self.inner.rely_on(segment)
    }

    fn stop_relocation(&mut self) {
        self.gc_victims = Arc::default();
    }

    fn append_to_segment(&mut self, segment: SegmentId, bytes: &[u8]) -> Result<u64> {
        self.inner.append_to_segment(segment, bytes)
    }

    fn delete_range(&mut self, fragment: &Fragment) -> Result<()> {
        self.inner.delete_range(fragment)
    }

    /// Returns the size of the open table in bytes. If the segment that this job writes is full,
    /// returns a huge number, so that the caller ends the table together with the segment.
    fn table_bytes(&self) -> u64 {
        if self.is_own_full() { u64::MAX } else { self.inner.table_bytes() }
    }

    fn end_table(&mut self) -> Result<()> {
        self.inner.end_table()?;
        self.finished.push(std::mem::take(&mut self.refs).into_iter().collect());
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(Vec<TableMeta>, DurabilityHandle)> {
        for segment in &self.wal_segments {
            self.inner.rely_on(*segment)?;
        }
        let (mut metas, handle) = self.inner.finish()?;
        for (meta, refs) in metas.iter_mut().zip(self.finished) {
            meta.refs.extend(refs);
        }
        Ok((metas, handle))
    }
}
