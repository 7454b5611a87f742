//! Reads adjacent values of a segment with one system call. Value-log GC writes relocated values
//! in key order, so a scan finds its values next to each other. If the scan read each of them with
//! its own call, it would spend more time in system calls than in copying.
use crate::{
    Budget, Held, Holder, Result,
    tables::{Bytes, ObjectId},
    values::SegmentReader,
};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

/// The largest gap in bytes between two entries that are treated as adjacent. A gap contains frame
/// headers and a few values that the scan does not read.
const GAP_MAX: u64 = 4096;
/// The size in bytes of the first coalesced read. Each further read is twice as large as the one
/// before it, up to `MOST_BYTES`.
const FIRST_BYTES: u64 = 16 << 10;
const MOST_BYTES: u64 = 128 << 10;
/// The maximum number of segments for which one scan keeps the last read. Values of one key range
/// can be in several segments, because each GC job writes the values that it relocates to another
/// segment. A scan of this range alternates between these segments.
const SEGMENTS_MAX: usize = 8;
/// If a read takes longer than this, plus a microsecond for each KiB, the coalescer concludes that
/// the read waited for the device.
const WAITED: Duration = Duration::from_micros(20);

/// Combines the reads of one scan of the value log.
pub struct ReadCoalescer {
    most: u64,
    /// The last read of each segment. The segment that was read last is first.
    held: VecDeque<Stretch>,
    /// The memory budget's counter for the bytes of the kept reads.
    counted: Held,
    waited: bool,
}

/// The last read of one segment, and the position of the scan in the segment.
struct Stretch {
    object: ObjectId,
    /// The bytes of a combined read, and their offset in the segment; `None` if the last entry was
    /// read alone.
    kept: Option<(u64, Bytes)>,
    /// The range of the last requested entry in the segment.
    last: Option<Range<u64>>,
    /// The size in bytes of the last combined read.
    reach: u64,
}

impl ReadCoalescer {
    /// Makes a coalescer that keeps at most `bytes` bytes in memory. The memory budget counts these
    /// bytes as read-ahead of cursors. If an entry is larger than an eighth of `bytes`, it is read
    /// alone.
    pub fn new(bytes: u64, budget: &Arc<Budget>) -> ReadCoalescer {
        let most = (bytes / SEGMENTS_MAX as u64).min(MOST_BYTES);
        ReadCoalescer { most, held: VecDeque::new(), counted: budget.hold(Holder::Cursors), waited: false }
    }

    /// Returns whether, since the last call of this method, a read had to wait for the device.
    pub fn waited(&mut self) -> bool {
        std::mem::take(&mut self.waited)
    }

    /// Returns the entry in the range `at` of segment `object`. `open` opens the segment.
    pub(crate) fn entry(
        &mut self,
        object: ObjectId,
        at: Range<u64>,
        open: impl FnOnce() -> Result<Arc<dyn SegmentReader>>,
    ) -> Result<Bytes> {
        if let Some(stretch) = self.held.front_mut().filter(|stretch| stretch.object == object)
            && let Some(entry) = stretch.part(&at)
        {
            stretch.last = Some(at);
            return Ok(entry); // The usual case: the bytes that are kept do not change.
        }
        let known = self.held.iter().position(|stretch| stretch.object == object).and_then(|at| self.held.remove(at));
        self.held.truncate(SEGMENTS_MAX - 1);
        self.held.push_front(known.unwrap_or_else(|| Stretch::none_of(object)));
        let stretch = &mut self.held[0];
        let found = stretch.entry(&at, self.most, open);
        stretch.last = Some(at);
        self.counted.set(self.held.iter().map(|stretch| stretch.kept_bytes()).sum());
        let (entry, waited) = found?;
        self.waited |= waited;
        Ok(entry)
    }
}

impl Stretch {
    fn none_of(object: ObjectId) -> Stretch {
        Stretch { object, kept: None, last: None, reach: 0 }
    }

    /// Returns the number of bytes that the coalescer keeps in memory for this segment.
    fn kept_bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, |(_, bytes)| bytes.len() as u64)
    }

    /// Returns the entry in the range `at` of the segment, if its bytes are in memory.
    fn part(&self, at: &Range<u64>) -> Option<Bytes> {
        let (from, bytes) = self.kept.as_ref()?;
        bytes.part_at(&(at.start.checked_sub(*from)?..at.end.checked_sub(*from)?))
    }

    /// Returns the entry in the range `at`, and whether the read waited for the device.
    fn entry(
        &mut self,
        at: &Range<u64>,
        most: u64,
        open: impl FnOnce() -> Result<Arc<dyn SegmentReader>>,
    ) -> Result<(Bytes, bool)> {
        if let Some(entry) = self.part(at) {
            return Ok((entry, false));
        }
        let segment = open()?;
        let begin = Instant::now();
        let entry = self.read(at, most, &*segment)?;
        let read = self.kept_bytes().max(entry.len() as u64);
        Ok((entry, begin.elapsed() > WAITED + Duration::from_micros(read >> 10)))
    }

    /// Returns whether the entry in the range `at` follows the last requested entry, with at most a
    /// small gap.
    fn goes_on(&self, at: &Range<u64>) -> bool {
        self.last.as_ref().is_some_and(|last| is_near(last.end, at.start))
    }

    /// Reads the entry in the range `at`. If the entry is adjacent to the last requested entry, the
    /// same system call also reads the bytes after it, or before it if the scan moves backward.
    fn read(&mut self, at: &Range<u64>, most: u64, segment: &dyn SegmentReader) -> Result<Bytes> {
        let behind = self.goes_on(at);
        let before = self.last.as_ref().is_some_and(|last| is_near(at.end, last.start));
        self.reach = if behind || before { (2 * self.reach).max(FIRST_BYTES).min(most) } else { 0 };
        self.kept = None;
        let read = |range: &Range<u64>| segment.read(range.start, range.end - range.start);
        if self.reach > at.end - at.start {
            let wide = match before {
                true => Ok(at.end.saturating_sub(self.reach).min(at.start)..at.end),
                false => segment.bytes().map(|end| at.start..at.start.saturating_add(self.reach).min(end).max(at.end)),
            };
            match wide.and_then(|wide| Ok((wide.start, read(&wide)?))) {
                Ok((from, bytes)) => self.kept = Some((from, Bytes::from(Arc::new(bytes)))),
                Err(_) => self.reach = 0, // the entry is then read alone
            }
        }
        match self.part(at) {
            Some(entry) => Ok(entry),
            None => read(at).map(Bytes::from),
        }
    }
}

/// Returns whether an entry that begins at `start` is adjacent to an entry that ends at `end`.
fn is_near(end: u64, start: u64) -> bool {
    start.checked_sub(end).is_some_and(|gap| gap <= GAP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StorageConfig;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use terrace_format::SegmentId;

    /// A segment of 1 MiB with one unreadable byte.
    #[derive(Default)]
    struct Counted {
        reads: AtomicU64,
        bytes: AtomicU64,
    }

    const BROKEN: u64 = 900_000;
    const WHOLE: u64 = 1 << 20;

    impl SegmentReader for Counted {
        fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
            let range = offset..offset + bytes;
            if range.contains(&BROKEN) || range.end > WHOLE {
                return Err(crate::Error::Unsupported("a read of this".into()));
            }
            self.reads.fetch_add(1, Relaxed);
            self.bytes.fetch_add(bytes, Relaxed);
            Ok(range.map(|at| (at % 251) as u8).collect())
        }

        fn expect(&self, _: u64, _: u64) {}

        fn bytes(&self) -> Result<u64> {
            Ok(WHOLE)
        }
    }

    /// Reads entries of 1000 bytes at the offsets `places`. Returns the number of reads, and the
    /// number of bytes read for each byte of the entries.
    fn reads(most: u64, places: impl Iterator<Item = u64>) -> (u64, f64) {
        let (segment, object) = (Arc::new(Counted::default()), ObjectId::Segment(SegmentId(7)));
        let (mut stretches, mut wanted) = (ReadCoalescer::new(most, &Budget::new(&StorageConfig::default())), 0);
        for at in places {
            let entry = stretches.entry(object, at..at + 1000, || Ok(segment.clone())).expect("it can be read");
            assert!(entry.iter().copied().eq((at..at + 1000).map(|at| (at % 251) as u8)), "the entry at {at}");
            wanted += 1000;
        }
        (segment.reads.load(Relaxed), segment.bytes.load(Relaxed) as f64 / wanted as f64)
    }

    #[test]
    fn adjacent_entries_are_read_together() {
        let places = || (0..800).map(|number| number * 1024);
        for (name, (reads, bytes)) in
            [("forward", reads(1 << 20, places())), ("backward", reads(1 << 20, places().rev()))]
        {
            assert!(reads < 20 && bytes < 1.4, "{name}: {reads} reads, {bytes} times the bytes");
        }
        assert_eq!(reads(0, places()).0, 800, "without memory nothing is coalesced");
    }

    /// Tests reads that alternate between the segments of one key range, as after several GC jobs
    /// relocated its values. Such reads must still be combined.
    #[test]
    fn reads_of_alternating_segments_are_coalesced() {
        let segment = Arc::new(Counted::default());
        let mut stretches = ReadCoalescer::new(1 << 20, &Budget::new(&StorageConfig::default()));
        let mut next = [0; SEGMENTS_MAX];
        for turn in 0..2400usize {
            let number = turn * 617 % SEGMENTS_MAX;
            let at = next[number];
            next[number] += 1024 + (turn % 3) as u64 * 1000; // leaves some garbage in between
            let object = ObjectId::Segment(SegmentId(number as u64));
            stretches.entry(object, at..at + 1000, || Ok(segment.clone())).expect("it can be read");
        }
        assert!(segment.reads.load(Relaxed) < 100, "{} reads", segment.reads.load(Relaxed));
    }

    /// Tests the bytes that a coalescer keeps in memory: the memory budget must count them, and
    /// their number must stay limited. Long entries must not be kept.
    #[test]
    fn kept_bytes_are_bounded() {
        let (segment, budget) = (Arc::new(Counted::default()), Budget::new(&StorageConfig::default()));
        let mut stretches = ReadCoalescer::new(1 << 20, &budget);
        let counted = || budget.held().0[Holder::Cursors as usize];
        for number in 0..20 {
            let object = ObjectId::Segment(SegmentId(number));
            for at in (0..300).map(|at| at * 1024) {
                stretches.entry(object, at..at + 1000, || Ok(segment.clone())).expect("it can be read");
                assert!(counted() <= 1 << 20, "{} bytes", counted());
            }
        }
        assert!(counted() > 512 << 10, "only {} bytes", counted());
        for number in 0..8 {
            let object = ObjectId::Segment(SegmentId(number));
            let long = (0..2).map(|at| at * 200_000);
            long.for_each(|at| {
                let entry = stretches.entry(object, at..at + 200_000, || Ok(segment.clone())).expect("it can be read");
                assert_eq!(entry.len(), 200_000);
            });
        }
        assert_eq!(counted(), 0, "long entries");
        drop(stretches);
    }

    #[test]
    fn distant_entries_are_read_one_by_one() {
        let (reads, bytes) = reads(1 << 20, (0..800).map(|number| number * 617 % 800 * 1024));
        assert!(reads > 700 && bytes < 1.5, "{reads} reads, {bytes} times the bytes");
    }

    #[test]
    fn an_unreadable_neighbour_and_the_end_do_not_fail_a_read() {
        let places = (0..1023).map(|number| number * 1024).filter(|at| !(*at..at + 1000).contains(&BROKEN));
        assert!(reads(1 << 20, places).0 < 60);
        let (segment, object) = (Arc::new(Counted::default()), ObjectId::Segment(SegmentId(7)));
        let mut stretches = ReadCoalescer::new(1 << 20, &Budget::new(&StorageConfig::default()));
        let mut at = |range| stretches.entry(object, range, || Ok(segment.clone()));
        assert!(at(WHOLE - 2000..WHOLE - 1000).is_ok() && at(WHOLE - 1000..WHOLE + 1).is_err());
        assert!(at(WHOLE - 1000..WHOLE).is_ok(), "each read reports its own error");
    }
}
