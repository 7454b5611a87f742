//! The write-ahead log as a segment: a frame for each batch, one append.
use super::Shared;
use crate::{
    Error, Result,
    placement::{LogEvent, LogReader, LogWriter, ObjectId, SegmentReader, SegmentWriter},
};
use std::sync::Arc;
use terrace_format::{
    Batch, LogId, Op,
    value_log::{Framer, Frames, MAGIC, Pointer, put_inline},
};

/// A buffer for frames is kept up to this size.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Starts log `id`, whose first batch is `first`.
pub(super) fn create(shared: Arc<Shared>, id: LogId, first: &[u8]) -> Result<Box<dyn LogWriter>> {
    let mut out = shared.inner.create_segment(id)?;
    out.append(MAGIC)?;
    let (framer, threshold) = (shared.framer(id.0), shared.setup.value_log_threshold);
    let mut writer = Writer { out, framer, storing: Storing::new(ObjectId::Wal(id), threshold), frame: Vec::new() };
    writer.append(first)?;
    Ok(Box::new(writer))
}

struct Writer {
    out: Box<dyn SegmentWriter>,
    framer: Framer,
    storing: Storing,
    /// The frame being made; empty between appends.
    frame: Vec<u8>,
}

impl LogWriter for Writer {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        let broken = |found| Error::corrupt("a batch to be written", 0, found);
        self.append_batch(&mut Batch::decode(record.to_vec()).map_err(broken)?)
    }

    fn append_batch(&mut self, batch: &mut Batch) -> Result<()> {
        let Writer { out, framer, storing, frame } = self;
        let begin = out.bytes();
        storing.begin();
        framer.frame(batch, frame, |op, at| storing.add(op, begin + at.start as u64, at.len() as u64));
        let appended = out.append(frame);
        frame.clear();
        frame.shrink_to(SPARE_BYTES_MAX);
        appended?;
        storing.swap(batch);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.out.sync()
    }

    fn end(&mut self) {
        self.out.end();
    }

    fn bytes(&self) -> u64 {
        self.out.bytes()
    }
}

/// Makes of a batch what memtables hold of it.
struct Storing {
    segment: ObjectId,
    /// Values from so many bytes on stay in the segment.
    threshold: usize,
    batch: Batch,
    stored: Vec<u8>,
}

impl Storing {
    fn new(segment: ObjectId, threshold: usize) -> Storing {
        Storing { segment, threshold, batch: Batch::new(), stored: Vec::new() }
    }

    fn begin(&mut self) {
        self.batch.clear();
    }

    /// The entry of `op` lies at `offset`, `bytes` long.
    fn add(&mut self, op: Op<'_>, offset: u64, bytes: u64) {
        let Op::Put(key, value) = op else { return self.batch.add(op) };
        self.stored.clear();
        if value.len() < self.threshold {
            put_inline(&mut self.stored, value);
        } else {
            let moved = matches!(self.segment, ObjectId::Segment(_));
            Pointer { moved, segment: self.segment.number(), offset, bytes }.put(&mut self.stored);
        }
        self.batch.put(key, &self.stored);
    }

    /// Puts what was made in the place of `batch`, whose memory it keeps.
    fn swap(&mut self, batch: &mut Batch) {
        self.batch.set_sequence(batch.sequence());
        std::mem::swap(&mut self.batch, batch);
    }
}

/// Opens log `id` as it is now.
pub(super) fn open(shared: &Shared, id: LogId) -> Result<Box<dyn LogReader>> {
    open_any(shared, ObjectId::Wal(id)).map_err(|error| match error {
        Error::Missing { object, .. } => Error::Missing { what: "log", object },
        other => other,
    })
}

/// Opens a segment as a log, whether it was one or not.
pub(super) fn open_any(shared: &Shared, id: ObjectId) -> Result<Box<dyn LogReader>> {
    let segment = shared.inner.open_segment(id)?;
    let frames = Frames::new(id.number(), segment.bytes()?);
    let storing = Storing::new(id, shared.setup.value_log_threshold);
    let mut reader = Reader { segment, frames, head: None, ours: false, storing };
    let head = reader.read()?;
    reader.ours = matches!(head, LogEvent::Record { .. });
    reader.head = Some(head);
    Ok(Box::new(reader))
}

struct Reader {
    segment: Arc<dyn SegmentReader>,
    frames: Frames,
    /// The first event, before it is told.
    head: Option<LogEvent>,
    /// Whether that was a batch.
    ours: bool,
    storing: Storing,
}

impl Reader {
    fn read(&mut self) -> Result<LogEvent> {
        let segment = &self.segment;
        self.frames.next(|offset, buf| {
            buf.copy_from_slice(&segment.read(offset, buf.len() as u64)?);
            Ok(())
        })
    }
}

impl LogReader for Reader {
    /// Nobody else writes segments; but one whose start is torn off has no head.
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
        let Reader { frames, storing, .. } = self;
        storing.begin();
        for (op, place) in batch.ops().zip(frames.places()) {
            storing.add(op, place.start, place.end - place.start);
        }
        storing.swap(&mut batch);
        batch
    }
}
