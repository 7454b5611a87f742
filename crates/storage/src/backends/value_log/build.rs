//! Builds whose tables point into segments: counted, relied upon, and moved out of where they do not pay.
use super::shared::Shared;
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

/// Starts a build.
pub(super) fn begin(shared: Arc<Shared>, hint: Hint) -> Result<Box<dyn TableSink>> {
    let inner = shared.inner.begin(hint)?;
    let condemned = shared.condemned.lock().clone();
    Ok(Box::new(PointingBuild {
        inner,
        condemned,
        own: None,
        refs: BTreeMap::new(),
        finished: Vec::new(),
        relied: BTreeSet::new(),
        stored: Vec::new(),
        shared,
    }))
}

struct PointingBuild {
    shared: Arc<Shared>,
    inner: Box<dyn TableSink>,
    condemned: Arc<BTreeSet<ObjectId>>,
    /// The segment that belongs to this build.
    own: Option<Own>,
    /// Bytes that the open table keeps alive.
    refs: BTreeMap<ObjectId, u64>,
    /// The same of the tables before.
    finished: Vec<Vec<(ObjectId, u64)>>,
    /// Logs to which memtables pointed.
    relied: BTreeSet<ObjectId>,
    stored: Vec<u8>,
}

/// Values that this build writes, in the order of keys: the segment that takes them.
struct Own {
    id: SegmentId,
    framer: Framer,
    /// So many are in it.
    bytes: u64,
    frame: Vec<u8>,
}

impl PointingBuild {
    /// Counts a pointer of the open table.
    fn point(&mut self, pointer: &ValuePointer) {
        *self.refs.entry(ObjectId::from(pointer)).or_default() += pointer.kept_bytes();
    }

    /// Whether the next table goes on in another segment.
    fn is_own_full(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.bytes >= self.shared.setup.value_log_segment_size)
    }

    /// Whether `value` is worth a place in a segment.
    fn is_apart(&self, value: &[u8]) -> bool {
        value.len() >= self.shared.setup.value_log_threshold
    }

    /// Writes the value of `internal` into the build's own segment, and stores where.
    fn put_apart(&mut self, internal: &[u8], value: &[u8], origin: Origin) -> Result<()> {
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

    /// Moves the value at `pointer` into the build's own segment. One that cannot be read stays where it is: whoever reads it is
    /// told why.
    fn take_over(&mut self, entry: EntryRef<'_>, pointer: &ValuePointer) -> Result<()> {
        let shared = self.shared.clone();
        let parsed = key::apart(entry.key);
        let Ok(bytes) = shared.entry(pointer, false) else { return self.leave(entry, pointer) };
        match shared.value_in(pointer, &bytes, parsed.user, parsed.seq) {
            Ok(value) => self.put_apart(entry.key, &value, entry.origin),
            Err(_) => self.leave(entry, pointer),
        }
    }

    /// Keeps a pointer to what cannot be read.
    fn leave(&mut self, entry: EntryRef<'_>, pointer: &ValuePointer) -> Result<()> {
        self.shared.unmoved.lock().insert(ObjectId::from(pointer));
        self.carry(entry, pointer)
    }

    /// Keeps the pointer.
    fn carry(&mut self, entry: EntryRef<'_>, pointer: &ValuePointer) -> Result<()> {
        if entry.origin == Origin::Memory {
            self.relied.insert(ObjectId::from(pointer));
        }
        self.point(pointer);
        self.inner.keep(entry)
    }
}

impl TableSink for PointingBuild {
    fn begin_table(&mut self, id: TableId) -> Result<()> {
        self.inner.begin_table(id)?;
        if self.own.is_none() || self.is_own_full() {
            // A segment has the number of the first table that points into it, which no other segment can have.
            let framer = self.shared.framer(id.0);
            self.own = Some(Own { id: SegmentId(id.0), framer, bytes: 0, frame: Vec::new() });
        }
        Ok(())
    }

    fn keep(&mut self, entry: EntryRef<'_>) -> Result<()> {
        if !self.shared.is_put(entry.key)? {
            return self.inner.keep(entry);
        }
        let pointer = match self.shared.parse(entry.stored)? {
            StoredValue::At(pointer) => pointer,
            // It came without a log.
            StoredValue::Inline(value) if entry.origin == Origin::Memory && self.is_apart(value) => {
                return self.put_apart(entry.key, value, entry.origin);
            }
            StoredValue::Inline(_) => return self.inner.keep(entry),
        };
        match self.condemned.contains(&ObjectId::from(&pointer)) {
            true => self.take_over(entry, &pointer),
            false => self.carry(entry, &pointer),
        }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let put = self.shared.is_put(key)?;
        if put && self.is_apart(value) {
            return self.put_apart(key, value, Origin::Memory);
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

    fn move_no_more(&mut self) {
        self.condemned = Arc::default();
    }

    fn append_to_segment(&mut self, segment: SegmentId, bytes: &[u8]) -> Result<u64> {
        self.inner.append_to_segment(segment, bytes)
    }

    fn delete_range(&mut self, fragment: &Fragment) -> Result<()> {
        self.inner.delete_range(fragment)
    }

    /// Without limit where the table is to end with its segment.
    fn table_bytes(&self) -> u64 {
        if self.is_own_full() { u64::MAX } else { self.inner.table_bytes() }
    }

    fn end_table(&mut self) -> Result<()> {
        self.inner.end_table()?;
        self.finished.push(std::mem::take(&mut self.refs).into_iter().collect());
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(Vec<TableMeta>, DurabilityHandle)> {
        for segment in &self.relied {
            self.inner.rely_on(*segment)?;
        }
        let (mut metas, ticket) = self.inner.finish()?;
        for (meta, refs) in metas.iter_mut().zip(self.finished) {
            meta.refs.extend(refs);
        }
        Ok((metas, ticket))
    }
}
