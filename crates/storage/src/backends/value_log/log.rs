//! The write-ahead log as a segment: a frame for each batch, one append. Batches without a value that stays there would be garbage in it
//! once they are in tables; they are in a small log beside it, which goes with the memtable.
use super::{merged::Merged, shared::Shared};
use crate::{
    Error, Result,
    placement::{LogEvent, LogKind, LogReader, LogWriter, ObjectId, SegmentReader, SegmentWriter},
};
use std::sync::Arc;
use terrace_format::{
    Batch, LogId, Op, SeqNo, batch,
    value_log::{Framer, Frames, INLINE, MAGIC, ValuePointer},
};

/// A buffer for frames is kept up to this size.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Starts log `id`, whose first batch is `first`.
pub(super) fn create(shared: Arc<Shared>, id: LogId, first: &[u8]) -> Result<Box<dyn LogWriter>> {
    let mut segment = shared.inner.create_segment(id)?;
    segment.append(MAGIC)?;
    let (framer, threshold) = (shared.framer(id.0), shared.setup.value_log_threshold);
    let storing = Storing::new(ObjectId::Wal(id), threshold);
    let has_small_log = shared.has_small_log()?;
    let mut writer = Writer { shared, id, segment, has_small_log, small: None, framer, storing, frame: Vec::new() };
    writer.frame(&mut decoded(first)?)?;
    Ok(Box::new(writer))
}

fn decoded(record: &[u8]) -> Result<Batch> {
    Batch::decode(record.to_vec()).map_err(|found| Error::corrupt("a batch to be written", 0, found))
}

struct Writer {
    shared: Arc<Shared>,
    id: LogId,
    segment: Box<dyn SegmentWriter>,
    /// Whether batches without a value that stays go to a log of their own.
    has_small_log: bool,
    /// That log; made with the first such batch.
    small: Option<Box<dyn LogWriter>>,
    framer: Framer,
    storing: Storing,
    /// The frame being made; empty between appends.
    frame: Vec<u8>,
}

impl Writer {
    /// Appends `batch` to the segment.
    fn frame(&mut self, batch: &mut Batch) -> Result<()> {
        let Writer { segment, framer, storing, frame, .. } = self;
        let begin = segment.bytes();
        storing.begin();
        framer.frame(batch, frame, |op, at| storing.add(op, begin + at.start as u64, at.len() as u64));
        let appended = segment.append(frame);
        frame.clear();
        frame.shrink_to(SPARE_BYTES_MAX);
        appended?;
        storing.swap(batch);
        Ok(())
    }

    /// Appends `batch` to the small log.
    fn append_small(&mut self, batch: &Batch) -> Result<()> {
        let small = match &mut self.small {
            Some(small) => small,
            none => {
                let head = batch::head(batch.sequence());
                none.insert(self.shared.inner.create_log(self.id, LogKind::Wal, &head)?)
            }
        };
        small.append(batch.as_bytes())
    }

    /// Whether no value of `batch` is to stay in the segment.
    fn is_small(&self, batch: &Batch) -> bool {
        let stays = |op| matches!(op, Op::Put(_, value) if value.len() >= self.storing.threshold);
        !batch.ops().any(stays)
    }
}

impl LogWriter for Writer {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.append_batch(&mut decoded(record)?).map(|_| ())
    }

    fn append_batch(&mut self, batch: &mut Batch) -> Result<&'static [u8]> {
        if self.has_small_log && self.is_small(batch) {
            self.append_small(batch)?;
            return Ok(INLINE);
        }
        self.frame(batch)?;
        Ok(&[])
    }

    /// Each file that has anything new. The segment's name goes first: without it what lies beside it counts for nothing.
    fn sync(&self) -> Result<()> {
        self.segment.sync()?;
        self.small.iter().try_for_each(|small| small.sync())
    }

    /// In the part that goes with the memtable, if there is one.
    fn mark_durable(&mut self, next: SeqNo) -> Result<()> {
        match &mut self.small {
            Some(small) => small.mark_durable(next),
            None if self.shared.inner.promises() && !self.shared.setup.direct_io => {
                self.frame(&mut decoded(&batch::durable_mark(next))?)
            }
            None => Ok(()),
        }
    }

    fn end(&mut self) {
        self.segment.end();
        self.small.iter_mut().for_each(|small| small.end());
    }

    fn bytes(&self) -> u64 {
        self.segment.bytes()
    }

    fn small_bytes(&self) -> u64 {
        self.small.as_ref().map_or(0, |small| small.bytes())
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
        if value.len() < self.threshold {
            return self.batch.put_in_parts(key, INLINE, value);
        }
        self.stored.clear();
        let moved = matches!(self.segment, ObjectId::Segment(_));
        ValuePointer { moved, segment: self.segment.number(), offset, bytes }.put(&mut self.stored);
        self.batch.put(key, &self.stored);
    }

    /// Puts what was made in the place of `batch`, whose memory it keeps.
    fn swap(&mut self, batch: &mut Batch) {
        self.batch.set_sequence(batch.sequence());
        std::mem::swap(&mut self.batch, batch);
    }
}

/// Opens log `id` as it is now, in both of its parts. One of them may be missing: a log without small batches has one, and what is left
/// of a damaged store may be either.
pub(super) fn open(shared: &Shared, id: LogId) -> Result<Box<dyn LogReader>> {
    let segment = match open_any(shared, ObjectId::Wal(id)) {
        Err(Error::Missing { object, .. }) => Err(Error::Missing { what: "log", object }),
        opened => Ok(opened?),
    };
    let small = match shared.inner.open_log(id, LogKind::Wal) {
        Err(Error::Missing { .. }) => return segment,
        opened => Small { reader: opened?, place: shared.inner.place_of(ObjectId::SmallLog(id)), torn: false },
    };
    Ok(Box::new(Merged::new(segment.ok(), Box::new(small))))
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

/// A small log. The values of its batches go into tables, however large they are by now.
struct Small {
    reader: Box<dyn LogReader>,
    /// For messages, which name the segment otherwise.
    place: String,
    /// That it ends within a record has been told.
    torn: bool,
}

impl LogReader for Small {
    fn ours(&self) -> bool {
        self.reader.ours()
    }

    fn next(&mut self) -> Result<LogEvent> {
        Ok(match self.reader.next()? {
            LogEvent::Bad { offset, bytes, reason } => {
                LogEvent::Bad { offset, bytes, reason: format!("{reason} ({})", self.place) }
            }
            LogEvent::End { offset, torn: true } if !std::mem::replace(&mut self.torn, true) => {
                LogEvent::Bad { offset, bytes: 0, reason: format!("it ends within a record ({})", self.place) }
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
            let read = segment.read(offset, buf.len() as u64).or_else(|error| {
                // One that is ended meanwhile loses the zeros that were allocated ahead.
                let there = segment.bytes()?.saturating_sub(offset);
                if there < buf.len() as u64 { segment.read(offset, there) } else { Err(error) }
            })?;
            buf[..read.len()].copy_from_slice(&read);
            buf[read.len()..].fill(0);
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
