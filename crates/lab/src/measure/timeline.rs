//! Timeline of a run: operations and latencies in spans (periods of time) of equal length.
use super::{kind::Kind, latencies::LATENCY_NANOS_MAX};
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Maximum number of spans in a timeline. It is even, because neighbouring spans are joined in
/// pairs when the maximum is reached.
const SPANS_MAX: usize = 128;
/// Length of a span at the start of a run. It doubles each time the spans are joined.
const SHORTEST: Duration = Duration::from_millis(10);
/// Significant digits of a recorded latency. With one digit, a percentile is at most 1/16 too
/// large.
const DIGITS: u8 = 1;

/// A timeline. It starts when the run starts.
#[derive(Clone, Debug)]
pub struct Timeline {
    began: Instant,
    /// Length of each span.
    length: Duration,
    /// End of the last span.
    ends: Instant,
    spans: Vec<Span>,
}

/// The operations that finished in one span.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// Number of operations.
    pub ops: u64,
    latencies: Vec<(Kind, Histogram<u32>)>,
}

impl Span {
    fn of(&mut self, kind: Kind) -> &mut Histogram<u32> {
        let at = self.latencies.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            let bounds_hold = "the bounds are valid constants";
            let empty = Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, DIGITS).expect(bounds_hold);
            self.latencies.push((kind, empty));
            self.latencies.len() - 1
        });
        &mut self.latencies[at].1
    }

    fn add(&mut self, other: &Span) {
        self.ops += other.ops;
        for (kind, theirs) in &other.latencies {
            self.of(*kind).add(theirs).expect("all have the same bounds");
        }
    }

    /// Returns the latencies of `kind` in ns; `None` if no operation of this kind finished in the
    /// span.
    pub fn latencies(&self, kind: Kind) -> Option<&Histogram<u32>> {
        self.latencies.iter().find(|(known, _)| *known == kind).map(|(_, latencies)| latencies)
    }
}

impl Timeline {
    /// Creates the timeline of a run that starts at `began`.
    pub fn since(began: Instant) -> Timeline {
        Timeline { began, length: SHORTEST, ends: began + SHORTEST, spans: vec![Span::default()] }
    }

    /// Records an operation of `kind` that took `time` and finished at `now`.
    #[inline]
    pub fn record(&mut self, kind: Kind, now: Instant, time: Duration) {
        while now >= self.ends {
            self.next_span();
        }
        let span = self.spans.last_mut().expect("there is always one");
        span.of(kind).saturating_record(time.as_nanos() as u64);
    }

    /// Counts finished operations. They belong to the span (period of time) in which the last call
    /// was recorded.
    #[inline]
    pub fn did(&mut self, ops: u64) {
        self.spans.last_mut().expect("there is always one").ops += ops;
    }

    /// Starts the next span.
    fn next_span(&mut self) {
        if self.spans.len() == SPANS_MAX {
            self.coarsen();
        }
        self.spans.push(Span::default());
        self.ends = self.began + self.length * self.spans.len() as u32;
    }

    /// Joins neighbouring spans in pairs, so that the timeline has half as many spans of twice the
    /// length.
    fn coarsen(&mut self) {
        self.length *= 2;
        let pairs = self.spans.chunks_mut(2);
        self.spans = pairs
            .map(|pair| {
                let (first, second) = pair.split_first_mut().expect("a chunk has one at least");
                second.iter().for_each(|second| first.add(second));
                std::mem::take(first)
            })
            .collect();
        self.ends = self.began + self.length * self.spans.len() as u32;
    }

    /// Adds the operations and latencies of another thread of the same run to this timeline.
    pub fn add(&mut self, mut other: Timeline) {
        while self.length < other.length {
            self.coarsen();
        }
        while other.length < self.length {
            other.coarsen();
        }
        let longer = self.spans.len().max(other.spans.len());
        self.spans.resize_with(longer, Span::default);
        self.spans.iter_mut().zip(&other.spans).for_each(|(mine, theirs)| mine.add(theirs));
        self.ends = self.began + self.length * longer as u32;
    }

    /// Sets the number of operations in each span to zero. The latencies remain.
    pub fn without_ops(mut self) -> Timeline {
        self.spans.iter_mut().for_each(|span| span.ops = 0);
        self
    }

    /// Ends the timeline at the end of a run of length `run`. Adds empty spans up to this time, and
    /// drops spans after it.
    pub fn until(mut self, run: Duration) -> Timeline {
        let count = |length: Duration| (run.as_nanos() / length.as_nanos()) as usize + 1;
        while count(self.length) > SPANS_MAX {
            self.coarsen();
        }
        self.spans.resize_with(count(self.length), Span::default);
        self
    }

    /// Returns the length of a span. After a call of [`until`](Timeline::until), the last span may
    /// be shorter, because it ends with the run.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Returns all spans, in order.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Returns a timeline with one get at each millisecond of `ms`. A get at millisecond n has a
    /// latency of n µs.
    fn gets(began: Instant, ms: impl Iterator<Item = u32>) -> Timeline {
        let mut timeline = Timeline::since(began);
        for at in ms {
            timeline.record(Kind::Get, began + MILLISECOND * at, Duration::from_micros(at.into()));
            timeline.did(1);
        }
        timeline
    }

    fn ops(timeline: &Timeline, run_ms: u32) -> Vec<u64> {
        timeline.clone().until(MILLISECOND * run_ms).spans().iter().map(|span| span.ops).collect()
    }

    #[test]
    fn operations_count_in_the_span_of_their_end() {
        let timeline = gets(Instant::now(), [1, 9, 10, 11, 12, 39].into_iter());
        assert_eq!((ops(&timeline, 39), timeline.length()), (vec![2, 3, 0, 1], SHORTEST));
        assert_eq!(ops(&timeline, 55), [2, 3, 0, 1, 0, 0], "the run went on");
        assert_eq!(ops(&timeline, 29), [2, 3, 0], "others did after its end");
        let latencies = timeline.spans()[1].latencies(Kind::Get).unwrap();
        let near = |nanos: u64, true_nanos: u64| nanos >= true_nanos && nanos < true_nanos + true_nanos / 16;
        assert!(near(latencies.max(), 12_000) && near(latencies.value_at_quantile(0.5), 11_000));
        assert!(timeline.spans()[1].latencies(Kind::Put).is_none());
        assert!(timeline.spans()[2].latencies(Kind::Get).is_none());
    }

    #[test]
    fn long_runs_have_longer_spans_and_lose_nothing() {
        let began = Instant::now();
        let timeline = gets(began, 0..3000);
        assert_eq!(timeline.length(), SHORTEST * 4);
        assert_eq!(ops(&timeline, 2999), [40; 75]);
        assert_eq!(timeline.spans()[9].latencies(Kind::Get).unwrap().len(), 40);
        // Tests a pause of a minute between two operations. The timeline must not lose operations.
        let standing = gets(began, (0..10).chain([60_000]));
        assert_eq!(standing.length(), SHORTEST * 64);
        let counted = ops(&standing, 60_000);
        assert_eq!((counted.len(), counted[0], counted[93]), (94, 10, 1));
        assert_eq!(counted.iter().sum::<u64>(), 11);
    }

    #[test]
    fn a_run_with_an_idle_end_has_no_more_spans_than_others() {
        let timeline = gets(Instant::now(), 0..100).until(Duration::from_secs(3600));
        assert!(timeline.spans().len() <= SPANS_MAX && timeline.spans().len() > SPANS_MAX / 2);
        assert_eq!(timeline.spans()[0].ops, 100);
        for ms in [10, 290, 1279, 1280, 1290, 2560, 100_000] {
            let timeline = gets(Instant::now(), 0..10).until(MILLISECOND * ms);
            let spans = timeline.spans().len() as u32;
            assert!(spans as usize <= SPANS_MAX && timeline.length() * spans > MILLISECOND * ms, "{ms} ms: {spans}");
            assert!(timeline.length() * (spans - 1) <= MILLISECOND * ms, "{ms} ms: {spans}");
        }
    }

    #[test]
    fn timelines_with_different_spans_are_joined() {
        let began = Instant::now();
        let (long, short) = (|| gets(began, 0..3000), || gets(began, 0..100));
        for (mut one, other) in [(long(), short()), (short(), long())] {
            one.add(other);
            let counted = ops(&one, 2999);
            assert_eq!((one.length(), counted.len()), (SHORTEST * 4, 75));
            assert_eq!(counted[..4], [80, 80, 60, 40]);
        }
        let mut with = short();
        with.add(short().without_ops());
        let first = &with.spans()[0];
        assert_eq!((first.ops, first.latencies(Kind::Get).unwrap().len()), (10, 20));
    }
}
