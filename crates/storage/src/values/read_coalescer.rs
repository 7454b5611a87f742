//! Values that lie side by side in a segment are read together: those that a compaction moved lie in the order of keys, and a scan that
//! read each by itself would ask the kernel more often than it copies.
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

/// What lies between two entries that are side by side is no more than this: headers of frames, and a little garbage.
const GAP_MAX: u64 = 4096;
/// Read at first where values are side by side; twice as much each time that they still are.
const FIRST_BYTES: u64 = 16 << 10;
const MOST_BYTES: u64 = 128 << 10;
/// Segments among which a scan goes to and fro: what several compactions moved lies in as many.
const SEGMENTS_MAX: usize = 8;
/// Of what is mapped the kernel brings about as much at once. To look at a clock for each entry would cost as much as to find it.
const PLACE_BYTES: u64 = 64 << 10;
/// A read that takes longer than this, and a microsecond for each KiB, was waited for: the kernel did not have it in memory.
const WAITED: Duration = Duration::from_micros(20);
/// The same of a look at what is mapped, which has the kernel map what it has in memory.
const WAITED_MAPPED: Duration = Duration::from_micros(60);

/// What one scan has read of segments.
pub struct ReadCoalescer {
    most: u64,
    /// That of the segment that was read last comes first.
    held: VecDeque<Stretch>,
    /// Their bytes, as the budget counts them.
    counted: Held,
    waited: bool,
}

/// What was read of one segment last.
struct Stretch {
    object: ObjectId,
    shown: Shown,
    /// Where the last entry lay.
    last: Option<Range<u64>>,
    /// So much was read together.
    reach: u64,
}

/// What there is to look at of a segment.
enum Shown {
    /// The last entry was read by itself.
    Nothing,
    /// What was read together, from this byte on.
    Read(u64, Bytes),
    /// All of it.
    Mapped(Bytes),
}

impl Shown {
    /// Bytes that are kept in memory for it.
    fn kept_bytes(&self) -> u64 {
        if let Shown::Read(_, bytes) = self { bytes.len() as u64 } else { 0 }
    }

    /// The entry, if it is there.
    fn part(&self, at: &Range<u64>) -> Option<Bytes> {
        match self {
            Shown::Nothing => None,
            Shown::Read(from, bytes) => bytes.part_at(&(at.start.checked_sub(*from)?..at.end.checked_sub(*from)?)),
            Shown::Mapped(all) => all.part_at(at),
        }
    }
}

impl ReadCoalescer {
    /// Keeps `bytes` in memory at most, which are counted as those of cursors. An entry of more than an eighth of that is read by itself.
    pub fn new(bytes: u64, budget: &Arc<Budget>) -> ReadCoalescer {
        let most = (bytes / SEGMENTS_MAX as u64).min(MOST_BYTES);
        ReadCoalescer { most, held: VecDeque::new(), counted: budget.hold(Holder::Cursors), waited: false }
    }

    /// Whether a read since the last time of asking had to wait for the device.
    pub fn waited(&mut self) -> bool {
        std::mem::take(&mut self.waited)
    }

    /// The entry at `at` of segment `object`, which `open` opens; where it is mapped, if `in_place`, or read.
    pub(crate) fn entry(
        &mut self,
        object: ObjectId,
        at: Range<u64>,
        in_place: bool,
        open: impl FnOnce() -> Result<Arc<dyn SegmentReader>>,
    ) -> Result<Bytes> {
        if let Some(stretch) = self.held.front_mut().filter(|stretch| stretch.object == object)
            && let Some((entry, waited)) = stretch.look(&at)
        {
            stretch.last = Some(at);
            self.waited |= waited;
            return Ok(entry); // as most are: what is kept is what it was
        }
        let known = self.held.iter().position(|stretch| stretch.object == object).and_then(|at| self.held.remove(at));
        self.held.truncate(SEGMENTS_MAX - 1);
        self.held.push_front(known.unwrap_or_else(|| Stretch::none_of(object)));
        let stretch = &mut self.held[0];
        let found = stretch.entry(&at, in_place, self.most, open);
        stretch.last = Some(at);
        self.counted.set(self.held.iter().map(|stretch| stretch.shown.kept_bytes()).sum());
        let (entry, waited) = found?;
        self.waited |= waited;
        Ok(entry)
    }
}

impl Stretch {
    fn none_of(object: ObjectId) -> Stretch {
        Stretch { object, shown: Shown::Nothing, last: None, reach: 0 }
    }

    /// The entry, and whether it was waited for.
    fn entry(
        &mut self,
        at: &Range<u64>,
        in_place: bool,
        most: u64,
        open: impl FnOnce() -> Result<Arc<dyn SegmentReader>>,
    ) -> Result<(Bytes, bool)> {
        if let Some(found) = self.look(at) {
            return Ok(found);
        }
        let segment = open()?;
        if let Some(all) = segment.shown().filter(|_| in_place) {
            self.shown = Shown::Mapped(all.clone());
            if let Some(found) = self.look(at) {
                return Ok(found);
            }
        }
        let begin = Instant::now();
        let entry = self.read(at, most, &*segment)?;
        let read = self.shown.kept_bytes().max(entry.len() as u64);
        Ok((entry, begin.elapsed() > WAITED + Duration::from_micros(read >> 10)))
    }

    /// The same of an entry that is shown.
    fn look(&self, at: &Range<u64>) -> Option<(Bytes, bool)> {
        let entry = self.shown.part(at)?;
        let waited = matches!(self.shown, Shown::Mapped(_)) && !self.is_beside(at) && is_waited_for(&entry);
        Some((entry, waited))
    }

    /// Whether the entry lies right behind the last, and the kernel is likely to have brought both at once.
    fn is_beside(&self, at: &Range<u64>) -> bool {
        let place = |byte: u64| byte / PLACE_BYTES;
        self.goes_on(at) && self.last.as_ref().is_some_and(|last| place(last.end) == place(at.end))
    }

    /// Whether the entry lies right behind the last.
    fn goes_on(&self, at: &Range<u64>) -> bool {
        self.last.as_ref().is_some_and(|last| is_near(last.end, at.start))
    }

    /// Reads the entry, and with it what lies behind or before it, if the last one lay on the other side.
    fn read(&mut self, at: &Range<u64>, most: u64, segment: &dyn SegmentReader) -> Result<Bytes> {
        let behind = self.goes_on(at);
        let before = self.last.as_ref().is_some_and(|last| is_near(at.end, last.start));
        self.reach = if behind || before { (2 * self.reach).max(FIRST_BYTES).min(most) } else { 0 };
        self.shown = Shown::Nothing;
        let read = |range: &Range<u64>| segment.read(range.start, range.end - range.start);
        if self.reach > at.end - at.start {
            let wide = match before {
                true => Ok(at.end.saturating_sub(self.reach).min(at.start)..at.end),
                false => segment.bytes().map(|end| at.start..at.start.saturating_add(self.reach).min(end).max(at.end)),
            };
            match wide.and_then(|wide| Ok((wide.start, read(&wide)?))) {
                Ok((from, bytes)) => self.shown = Shown::Read(from, Bytes::from(Arc::new(bytes))),
                Err(_) => self.reach = 0, // what is wrong with its neighbours is no matter of this entry's
            }
        }
        match self.shown.part(at) {
            Some(entry) => Ok(entry),
            None => read(at).map(Bytes::from),
        }
    }
}

/// Whether what starts at `start` is side by side with what ends at `end`.
fn is_near(end: u64, start: u64) -> bool {
    start.checked_sub(end).is_some_and(|gap| gap <= GAP_MAX)
}

/// Whether the kernel has to fetch an entry that is mapped, by a look at both of its ends.
fn is_waited_for(entry: &[u8]) -> bool {
    let begin = Instant::now();
    std::hint::black_box((entry.first().copied(), entry.last().copied()));
    begin.elapsed() > WAITED_MAPPED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StorageConfig;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use terrace_format::SegmentId;

    /// A mebibyte, of which one byte cannot be read.
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

    /// Reads entries of 1000 bytes at these places; how many reads that took, and how many bytes for each that was wanted.
    fn reads(most: u64, places: impl Iterator<Item = u64>) -> (u64, f64) {
        let (segment, object) = (Arc::new(Counted::default()), ObjectId::Segment(SegmentId(7)));
        let (mut stretches, mut wanted) = (ReadCoalescer::new(most, &Budget::new(&StorageConfig::default())), 0);
        for at in places {
            let entry = stretches.entry(object, at..at + 1000, true, || Ok(segment.clone())).expect("it can be read");
            assert!(entry.iter().copied().eq((at..at + 1000).map(|at| (at % 251) as u8)), "the entry at {at}");
            wanted += 1000;
        }
        (segment.reads.load(Relaxed), segment.bytes.load(Relaxed) as f64 / wanted as f64)
    }

    #[test]
    fn entries_side_by_side_are_read_together() {
        let places = || (0..800).map(|number| number * 1024);
        for (name, (reads, bytes)) in
            [("forward", reads(1 << 20, places())), ("backward", reads(1 << 20, places().rev()))]
        {
            assert!(reads < 20 && bytes < 1.4, "{name}: {reads} reads, {bytes} times the bytes");
        }
        assert_eq!(reads(0, places()).0, 800, "who wants nothing ahead gets nothing");
    }

    /// What compactions of upper levels moved before lies elsewhere.
    #[test]
    fn several_segments_are_read_by_turns() {
        let segment = Arc::new(Counted::default());
        let mut stretches = ReadCoalescer::new(1 << 20, &Budget::new(&StorageConfig::default()));
        let mut next = [0; SEGMENTS_MAX];
        for turn in 0..2400usize {
            let number = turn * 617 % SEGMENTS_MAX;
            let at = next[number];
            next[number] += 1024 + (turn % 3) as u64 * 1000; // there is some garbage
            let object = ObjectId::Segment(SegmentId(number as u64));
            stretches.entry(object, at..at + 1000, true, || Ok(segment.clone())).expect("it can be read");
        }
        assert!(segment.reads.load(Relaxed) < 100, "{} reads", segment.reads.load(Relaxed));
    }

    /// What is kept is counted, and bounded; long entries are not kept at all.
    #[test]
    fn no_more_is_kept_than_was_said() {
        let (segment, budget) = (Arc::new(Counted::default()), Budget::new(&StorageConfig::default()));
        let mut stretches = ReadCoalescer::new(1 << 20, &budget);
        let counted = || budget.held().0[Holder::Cursors as usize];
        for number in 0..20 {
            let object = ObjectId::Segment(SegmentId(number));
            for at in (0..300).map(|at| at * 1024) {
                stretches.entry(object, at..at + 1000, true, || Ok(segment.clone())).expect("it can be read");
                assert!(counted() <= 1 << 20, "{} bytes", counted());
            }
        }
        assert!(counted() > 512 << 10, "only {} bytes", counted());
        for number in 0..8 {
            let object = ObjectId::Segment(SegmentId(number));
            let long = (0..2).map(|at| at * 200_000);
            long.for_each(|at| {
                let entry =
                    stretches.entry(object, at..at + 200_000, true, || Ok(segment.clone())).expect("it can be read");
                assert_eq!(entry.len(), 200_000);
            });
        }
        assert_eq!(counted(), 0, "long entries");
        drop(stretches);
    }

    #[test]
    fn entries_apart_are_read_by_themselves() {
        let (reads, bytes) = reads(1 << 20, (0..800).map(|number| number * 617 % 800 * 1024));
        assert!(reads > 700 && bytes < 1.5, "{reads} reads, {bytes} times the bytes");
    }

    #[test]
    fn a_neighbour_that_cannot_be_read_and_the_end_are_no_matter() {
        let places = (0..1023).map(|number| number * 1024).filter(|at| !(*at..at + 1000).contains(&BROKEN));
        assert!(reads(1 << 20, places).0 < 60);
        let (segment, object) = (Arc::new(Counted::default()), ObjectId::Segment(SegmentId(7)));
        let mut stretches = ReadCoalescer::new(1 << 20, &Budget::new(&StorageConfig::default()));
        let mut at = |range| stretches.entry(object, range, true, || Ok(segment.clone()));
        assert!(at(WHOLE - 2000..WHOLE - 1000).is_ok() && at(WHOLE - 1000..WHOLE + 1).is_err());
        assert!(at(WHOLE - 1000..WHOLE).is_ok(), "an error is told once for each who asks");
    }
}
