//! What happened when: operations and latencies in each of equal spans of a run.
use super::{Kind, LATENCY_NANOS_MAX};
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Spans at most; when there would be more, each two become one. Even.
const SPANS_MAX: usize = 128;
/// The length of a span in a run that is short.
const SHORTEST: Duration = Duration::from_millis(10);
/// Significant digits of a latency: a percentile is too large by a sixteenth at most.
const DIGITS: u8 = 1;

/// From the beginning of a run on.
#[derive(Clone, Debug)]
pub struct Timeline {
    began: Instant,
    /// Length of each span.
    length: Duration,
    /// When the last one ends.
    ends: Instant,
    spans: Vec<Span>,
}

/// What ended in one of them.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// Operations that count.
    pub ops: u64,
    latencies: Vec<(Kind, Histogram<u32>)>,
}

impl Span {
    fn of(&mut self, kind: Kind) -> &mut Histogram<u32> {
        let at = self.latencies.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            let bounds_hold = "the bounds are constants that the histogram accepts";
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

    /// Latencies of `kind` in ns; `None` if nothing of the kind ended here.
    pub fn latencies(&self, kind: Kind) -> Option<&Histogram<u32>> {
        self.latencies.iter().find(|(known, _)| *known == kind).map(|(_, latencies)| latencies)
    }
}

impl Timeline {
    /// Of a run that begins now, at `began`.
    pub fn since(began: Instant) -> Timeline {
        Timeline { began, length: SHORTEST, ends: began + SHORTEST, spans: vec![Span::default()] }
    }

    /// Something of `kind` took `time` and has ended `now`.
    #[inline]
    pub fn record(&mut self, kind: Kind, now: Instant, time: Duration) {
        while now >= self.ends {
            self.go_on();
        }
        let span = self.spans.last_mut().expect("there is always one");
        span.of(kind).saturating_record(time.as_nanos() as u64);
    }

    /// So many operations are done; the last call that was recorded is the last of them.
    #[inline]
    pub fn did(&mut self, ops: u64) {
        self.spans.last_mut().expect("there is always one").ops += ops;
    }

    /// The next span begins.
    fn go_on(&mut self) {
        if self.spans.len() == SPANS_MAX {
            self.coarsen();
        }
        self.spans.push(Span::default());
        self.ends = self.began + self.length * self.spans.len() as u32;
    }

    /// Each two spans become one.
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

    /// Adds what another thread did in the same run.
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

    /// Forgets operations; what took time stays.
    pub fn without_ops(mut self) -> Timeline {
        self.spans.iter_mut().for_each(|span| span.ops = 0);
        self
    }

    /// Ends with the run, which took so long: spans without an operation are there, too, and what ended behind it is not.
    pub fn until(mut self, run: Duration) -> Timeline {
        let count = |length: Duration| (run.as_nanos() / length.as_nanos()) as usize + 1;
        while count(self.length) > SPANS_MAX {
            self.coarsen();
        }
        self.spans.resize_with(count(self.length), Span::default);
        self
    }

    /// Length of a span; after [`until`](Timeline::until) the last one ends with the run.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// All of them, in order.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// A get each ms of `ms`, of as many µs.
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
    fn what_ends_in_a_span_is_counted_there() {
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
        // After a standstill of a minute, too.
        let standing = gets(began, (0..10).chain([60_000]));
        assert_eq!(standing.length(), SHORTEST * 64);
        let counted = ops(&standing, 60_000);
        assert_eq!((counted.len(), counted[0], counted[93]), (94, 10, 1));
        assert_eq!(counted.iter().sum::<u64>(), 11);
    }

    #[test]
    fn a_run_that_outlasts_what_it_did_has_no_more_spans_than_others() {
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
    fn threads_that_kept_other_spans_are_one_run() {
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
