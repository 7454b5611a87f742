//! The WAL as a value-log segment. Each batch is one frame, written by one append.
//!
//! A batch without a separated value is garbage as soon as its entries are in tables. Such batches
//! are therefore not written to the segment but to a second file, the WAL sidecar. The sidecar is
//! removed when the memtable has been flushed.
use super::{merged::MergedWal, shared::ValueLogInner};
use crate::{
    Error, Result,
    placement::{LogEvent, LogKind, LogReader, LogWriter, ObjectId, SegmentReader, SegmentWriter},
};
use std::sync::Arc;
use terrace_format::{
    Batch, LogId, Op, SeqNo, batch,
    log_record::BLOCK_BYTES,
    value_log::{Framer, Frames, INLINE, MAGIC, ValuePointer},
};

/// If the buffer in which a WAL's frames are encoded has grown beyond this number of bytes, it is
/// freed after its use.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Creates WAL `id`. Its first batch is `first`.
pub(super) fn create(shared: Arc<ValueLogInner>, id: LogId, first: &[u8]) -> Result<Box<dyn LogWriter>> {
    let mut segment = shared.inner.create_segment(id)?;
    segment.append(MAGIC)?;
    let (framer, threshold) = (shared.framer(id.0), shared.setup.value_log_threshold);
    let converter = BatchConverter::new(ObjectId::Wal(id), threshold);
    let has_sidecar = shared.has_sidecar()?;
    let mut writer = WalSegmentWriter {
        shared,
        id,
        segment,
        has_sidecar,
        sidecar: None,
        sidecar_marked: false,
        framer,
        converter,
        frame: Vec::new(),
    };
    writer.frame(&mut decoded(first)?)?;
    Ok(Box::new(writer))
}

fn decoded(record: &[u8]) -> Result<Batch> {
    Batch::decode(record.to_vec()).map_err(|found| Error::corrupt("a batch to be written", 0, found))
}

struct WalSegmentWriter {
    shared: Arc<ValueLogInner>,
    id: LogId,
    segment: Box<dyn SegmentWriter>,
    /// Whether batches without a separated value are written to a sidecar and not to the segment.
    has_sidecar: bool,
    /// The sidecar. It is created when the first batch without a separated value is written.
    sidecar: Option<Box<dyn LogWriter>>,
    /// Whether the segment has a durable mark (a record which states that earlier writes were
    /// synced) that covers writes in the sidecar.
    sidecar_marked: bool,
    framer: Framer,
    converter: BatchConverter,
    /// The frame being encoded; empty between appends.
    frame: Vec<u8>,
}

impl WalSegmentWriter {
    /// Appends `batch` to the segment.
    fn frame(&mut self, batch: &mut Batch) -> Result<()> {
        let WalSegmentWriter { segment, framer, converter, frame, .. } = self;
        let begin = segment.bytes();
        converter.begin();
        framer.frame(batch, frame, |op, at| converter.add(op, begin + at.start as u64, at.len() as u64));
        let appended = segment.append(frame);
        frame.clear();
        frame.shrink_to(FRAME_BYTES_MAX);
        appended?;
        converter.swap(batch);
        Ok(())
    }

    /// Appends `batch` to the sidecar.
    fn append_to_sidecar(&mut self, batch: &Batch) -> Result<()> {
        let sidecar = match &mut self.sidecar {
            Some(sidecar) => sidecar,
            none => {
                let head = batch::head(batch.sequence());
                none.insert(self.shared.inner.create_log(self.id, LogKind::Wal, &head)?)
            }
        };
        sidecar.append(batch.as_bytes())
    }

    /// Returns whether no value of `batch` is long enough to be separated.
    fn has_no_separated_value(&self, batch: &Batch) -> bool {
        let is_separated = |op| matches!(op, Op::Put(_, value) if value.len() >= self.converter.threshold);
        !batch.ops().any(is_separated)
    }
}

impl LogWriter for WalSegmentWriter {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.append_batch(&mut decoded(record)?).map(|_| ())
    }

    fn append_batch(&mut self, batch: &mut Batch) -> Result<&'static [u8]> {
        if self.has_sidecar && self.has_no_separated_value(batch) {
            self.append_to_sidecar(batch)?;
            return Ok(INLINE);
        }
        self.frame(batch)?;
        Ok(&[])
    }

    /// Syncs the segment and the sidecar, each only if it has new data. The segment is synced
    /// first, because recovery ignores a sidecar whose segment has no durable directory entry.
    fn sync(&self) -> Result<()> {
        self.segment.sync()?;
        self.sidecar.iter().try_for_each(|sidecar| sidecar.sync())
    }

    /// Writes the durable mark (a record which states that earlier writes were synced) to the
    /// sidecar, or to the segment if there is no sidecar. The first mark after the creation of the
    /// sidecar is written to the segment too. So if the sidecar is lost later, the mark in the
    /// segment shows that durable writes are missing. With `direct_io` no mark is written to a
    /// segment.
    fn mark_durable(&mut self, next: SeqNo) -> Result<()> {
        if let Some(sidecar) = &mut self.sidecar {
            sidecar.mark_durable(next)?;
            if std::mem::replace(&mut self.sidecar_marked, true) {
                return Ok(());
            }
        }
        if self.shared.inner.promises() && !self.shared.setup.direct_io {
            self.frame(&mut decoded(&batch::durable_mark(next))?)?;
        }
        Ok(())
    }

    fn end(&mut self) {
        self.segment.end();
        self.sidecar.iter_mut().for_each(|sidecar| sidecar.end());
    }

    fn bytes(&self) -> u64 {
        self.segment.bytes()
    }

    fn sidecar_bytes(&self) -> u64 {
        self.sidecar.as_ref().map_or(0, |sidecar| sidecar.bytes())
    }
}

/// Converts a batch to the form that memtables store. A separated value is replaced by a value
/// pointer, and an inline value gets a prefix that marks it as inline.
struct BatchConverter {
    segment: ObjectId,
    /// Values of at least this many bytes are separated.
    threshold: usize,
    batch: Batch,
    stored: Vec<u8>,
}

impl BatchConverter {
    fn new(segment: ObjectId, threshold: usize) -> BatchConverter {
        BatchConverter { segment, threshold, batch: Batch::new(), stored: Vec::new() }
    }

    fn begin(&mut self) {
        self.batch.clear();
    }

    /// Adds `op` to the converted batch. The entry of `op` in the segment is at `offset` and is
    /// `bytes` bytes long.
    fn add(&mut self, op: Op<'_>, offset: u64, bytes: u64) {
        let Op::Put(key, value) = op else { return self.batch.add(op) };
        if value.len() < self.threshold {
            return self.batch.put_in_parts(key, INLINE, value);
        }
        self.stored.clear();
        let moved = matches!(self.segment, ObjectId::Segment(_));
        ValuePointer { moved, segment: self.segment.number(), offset, bytes }.put(&mut self.stored);
        self.batch.put(key, &self.stored);
    }

    /// Replaces `batch` by the converted batch, and reuses the memory of `batch`.
    fn swap(&mut self, batch: &mut Batch) {
        self.batch.set_sequence(batch.sequence());
        std::mem::swap(&mut self.batch, batch);
    }
}

/// Opens both files of WAL `id`, the segment and the sidecar, as one log. One of the files may be
/// missing: a WAL without batches of small values has no sidecar, and a damaged store may have
/// lost either file.
pub(super) fn open(shared: &ValueLogInner, id: LogId) -> Result<Box<dyn LogReader>> {
    let segment = match open_any(shared, ObjectId::Wal(id)) {
        Err(Error::Missing { object, .. }) => Err(Error::Missing { what: "log", object }),
        opened => Ok(opened?),
    };
    let sidecar = match shared.inner.open_log(id, LogKind::Wal) {
        Err(Error::Missing { .. }) => return segment,
        opened => Sidecar { reader: opened?, path: shared.inner.place_of(ObjectId::WalSidecar(id)), torn: false },
    };
    Ok(Box::new(MergedWal::new(segment.ok(), Box::new(sidecar))))
}

/// Opens a segment, of a WAL or of relocated values, as a log.
pub(super) fn open_any(shared: &ValueLogInner, id: ObjectId) -> Result<Box<dyn LogReader>> {
    let segment = shared.inner.open_segment(id)?;
    // The segment may end in a hole (zeros that were never written) of any size. The reader reads
    // only the first bytes of the hole.
    let data_end = segment.data_end()?.saturating_add(BLOCK_BYTES as u64);
    let frames = Frames::new(id.number(), segment.bytes()?.min(data_end));
    let converter = BatchConverter::new(id, shared.setup.value_log_threshold);
    let mut reader = SegmentLogReader { segment, frames, head: None, ours: false, converter };
    let head = reader.read()?;
    reader.ours = matches!(head, LogEvent::Record { .. });
    reader.head = Some(head);
    Ok(Box::new(reader))
}

/// A WAL sidecar. All values in it are stored inline, even if the present threshold would place
/// them in the value log.
struct Sidecar {
    reader: Box<dyn LogReader>,
    /// The path of the sidecar, for messages. Messages about other files name the segment.
    path: String,
    /// Whether this reader has already reported that the sidecar ends within a record.
    torn: bool,
}

impl LogReader for Sidecar {
    fn ours(&self) -> bool {
        self.reader.ours()
    }

    fn next(&mut self) -> Result<LogEvent> {
        Ok(match self.reader.next()? {
            LogEvent::Bad { offset, bytes, reason } => {
                LogEvent::Bad { offset, bytes, reason: format!("{reason} ({})", self.path) }
            }
            LogEvent::End { offset, torn: true } if !std::mem::replace(&mut self.torn, true) => {
                LogEvent::Bad { offset, bytes: 0, reason: format!("it ends within a record ({})", self.path) }
            }
            LogEvent::End { offset, .. } => LogEvent::End { offset, torn: false },
            record => record,
        })
    }

    fn store(&mut self, batch: Batch) -> Batch {
        let mut stored = Batch::new();
        for op in batch.ops() {
            match op {
                Op::Put(key, value) => stored.put_in_parts(key, INLINE, value),
                other => stored.add(other),
            }
        }
        stored.set_sequence(batch.sequence());
        stored
    }
}

struct SegmentLogReader {
    segment: Arc<dyn SegmentReader>,
    frames: Frames,
    /// The first event, which was read when the log was opened; `None` after it was returned.
    head: Option<LogEvent>,
    /// Whether the first event of the log was a batch. If so, Terrace wrote the log, and the start
    /// of the log is intact.
    ours: bool,
    converter: BatchConverter,
}

impl SegmentLogReader {
    fn read(&mut self) -> Result<LogEvent> {
        let segment = &self.segment;
        self.frames.next(|offset, buf| {
            let read = segment.read(offset, buf.len() as u64).or_else(|error| {
                // The segment's writer may end the segment during this read, which truncates the
                // preallocated zeros at its end. The missing bytes are then treated as zeros.
                let there = segment.bytes()?.saturating_sub(offset);
                if there < buf.len() as u64 { segment.read(offset, there) } else { Err(error) }
            })?;
            buf[..read.len()].copy_from_slice(&read);
            buf[read.len()..].fill(0);
            Ok(())
        })
    }
}

impl LogReader for SegmentLogReader {
    /// Returns whether Terrace wrote the log. Only Terrace writes segments, so the result is false
    /// only for a segment that lost its start and has no first batch.
    fn ours(&self) -> bool {
        self.ours
    }

    fn next(&mut self) -> Result<LogEvent> {
        match self.head.take() {
            Some(first) => Ok(first),
            None => self.read(),
        }
    }

    fn store(&mut self, mut batch: Batch) -> Batch {
        let SegmentLogReader { frames, converter, .. } = self;
        converter.begin();
        for (op, place) in batch.ops().zip(frames.places()) {
            converter.add(op, place.start, place.end - place.start);
        }
        converter.swap(&mut batch);
        batch
    }
}
