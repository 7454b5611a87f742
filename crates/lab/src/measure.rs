//! Threads that begin together, a clock, and latencies of each kind of operation: a histogram of all, and how they were over time.
mod timeline;

pub use timeline::{Span, Timeline};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use std::{
    ops::AddAssign,
    sync::{
        Barrier, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Kinds of operations whose latencies are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A write that puts, alone or as a batch.
    Put,
    /// A point read.
    Get,
    /// A write that deletes, alone or as a batch.
    Delete,
    /// A seek with the pairs behind it.
    Scan,
    /// A read and the write that depends on it.
    Rmw,
    /// The way from one pair of a scan to the next, with the check of the pair if answers are checked.
    Next,
    /// Opening a store that exists.
    Open,
    /// Merging everything down.
    Compact,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 8] =
        [Kind::Put, Kind::Get, Kind::Delete, Kind::Scan, Kind::Rmw, Kind::Next, Kind::Open, Kind::Compact];

    /// As reports spell it.
    pub fn name(self) -> &'static str {
        ["put", "get", "delete", "scan", "rmw", "next", "open", "compact"][self as usize]
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations.
    pub ops: u64,
    /// Reads that found their key.
    pub found: u64,
    /// Keys and values of acknowledged puts, keys of deletes, in bytes.
    pub written_bytes: u64,
    /// Keys and values that reads returned, in bytes.
    pub returned_bytes: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.ops += other.ops;
        self.found += other.found;
        self.written_bytes += other.written_bytes;
        self.returned_bytes += other.returned_bytes;
    }
}

/// Latencies in ns by kind; three significant digits, one hour at most.
#[derive(Clone, Debug)]
pub struct Latencies(Vec<Histogram<u64>>);

const LATENCY_NANOS_MAX: u64 = 3_600_000_000_000;

impl Latencies {
    fn new() -> Latencies {
        let bounds_hold = "the bounds are constants that the histogram accepts";
        Latencies(Kind::ALL.map(|_| Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, 3).expect(bounds_hold)).into())
    }

    fn record(&mut self, kind: Kind, time: Duration) {
        self.0[kind as usize].saturating_record(time.as_nanos() as u64);
    }

    fn merge(&mut self, other: &Latencies) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.add(theirs).expect("all have the same bounds");
        }
    }

    /// The histograms that hold anything, in ns.
    pub fn recorded(&self) -> impl Iterator<Item = (Kind, &Histogram<u64>)> {
        Kind::ALL.into_iter().zip(&self.0).filter(|(_, histogram)| !histogram.is_empty())
    }
}

/// How to work.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Threads whose work is the workload: it ends when they have ended, and their operations count.
    pub foreground: usize,
    /// Threads that work beside them until they have ended. Their bytes and latencies count.
    pub background: usize,
    /// Whether latencies are recorded.
    pub histogram: bool,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Sums over the threads; operations and hits of the foreground only.
    pub tally: Tally,
    /// From the first operation to the last, foreground only.
    pub seconds: f64,
    /// `None` if no latencies were recorded.
    pub recorded: Option<Recorded>,
}

/// What the clock told.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Of the whole run.
    pub latencies: Latencies,
    /// The same over time, with operations.
    pub timeline: Timeline,
}

impl Recorded {
    #[inline]
    fn record(&mut self, kind: Kind, start: Instant, now: Instant) {
        let time = now - start;
        self.latencies.record(kind, time);
        self.timeline.record(kind, now, time);
    }

    fn merge(&mut self, other: Recorded) {
        self.latencies.merge(&other.latencies);
        self.timeline.add(other.timeline);
    }
}

/// One thread's side of a run.
#[derive(Debug)]
pub struct Worker<'a> {
    /// From 0; the background comes after the foreground.
    pub index: usize,
    /// What this thread has done.
    pub tally: Tally,
    recorded: Option<Recorded>,
    shared: &'a Shared,
}

#[derive(Debug)]
struct Shared {
    failed: AtomicBool,
    foreground_left: AtomicUsize,
    running: AtomicUsize,
    done: Vec<AtomicU64>,
    /// When the run did: the same for all threads.
    began: OnceLock<Instant>,
}

/// A thread tells its progress after so many operations; a power of two.
const TELL_OPS: u64 = 1024;

impl Worker<'_> {
    /// Does a call, and records how long it took if latencies are recorded.
    #[inline]
    pub fn timed<T>(&mut self, kind: Kind, call: impl FnOnce() -> T) -> T {
        let Some(recorded) = &mut self.recorded else { return call() };
        let start = Instant::now();
        let result = call();
        recorded.record(kind, start, Instant::now());
        result
    }

    /// The time, if latencies are recorded; for what [`timed`](Worker::timed) cannot wrap.
    #[inline]
    pub fn now(&self) -> Option<Instant> {
        self.recorded.is_some().then(Instant::now)
    }

    /// Records the time since `start`, which [`now`](Worker::now) told.
    #[inline]
    pub fn record_since(&mut self, kind: Kind, start: Option<Instant>) {
        if let (Some(recorded), Some(start)) = (&mut self.recorded, start) {
            recorded.record(kind, start, Instant::now());
        }
    }

    /// As [`record_since`](Worker::record_since); tells the time too, from which the next one may be recorded. What a step of a scan
    /// costs is little more than reading a clock, so it is read once for each.
    #[inline]
    pub fn record_lap(&mut self, kind: Kind, start: Option<Instant>) -> Option<Instant> {
        let (recorded, start) = (self.recorded.as_mut()?, start?);
        let now = Instant::now();
        recorded.record(kind, start, now);
        Some(now)
    }

    /// Counts operations that are done. False if another thread has failed, and this one should end.
    #[inline]
    pub fn did(&mut self, ops: u64) -> bool {
        let before = self.tally.ops;
        self.tally.ops += ops;
        if let Some(recorded) = &mut self.recorded {
            recorded.timeline.did(ops);
        }
        if before / TELL_OPS != self.tally.ops / TELL_OPS {
            self.shared.done[self.index].store(self.tally.ops, Relaxed);
            return !self.shared.failed.load(Relaxed);
        }
        true
    }

    /// Whether a thread of the foreground still works, and none has failed.
    pub fn foreground_works(&self) -> bool {
        self.shared.foreground_left.load(Relaxed) > 0 && !self.shared.failed.load(Relaxed)
    }
}

/// Ends a thread's part even if it panics, so that nobody waits for it.
struct Ending<'a> {
    shared: &'a Shared,
    foreground: bool,
    parent: thread::Thread,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.failed.store(true, Relaxed);
        }
        if self.foreground {
            self.shared.foreground_left.fetch_sub(1, Relaxed);
        }
        self.shared.running.fetch_sub(1, Relaxed);
        self.parent.unpark();
    }
}

/// Runs `job` on every thread of `plan` and tells `progress` about twice a second how many operations the foreground has
/// done. The first failure ends all threads and is returned.
pub fn run(
    plan: Plan,
    progress: &mut dyn FnMut(u64),
    job: &(dyn Fn(&mut Worker<'_>) -> Result<()> + Sync),
) -> Result<Outcome> {
    let threads = plan.foreground + plan.background;
    let shared = Shared {
        failed: AtomicBool::new(false),
        foreground_left: AtomicUsize::new(plan.foreground),
        running: AtomicUsize::new(threads),
        done: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        began: OnceLock::new(),
    };
    let barrier = Barrier::new(threads);
    let work = |index: usize, parent: thread::Thread| {
        let foreground = index < plan.foreground;
        let _ending = Ending { shared: &shared, foreground, parent };
        let latencies = plan.histogram.then(Latencies::new);
        barrier.wait();
        let began = *shared.began.get_or_init(Instant::now);
        let recorded = latencies.map(|latencies| Recorded { latencies, timeline: Timeline::since(began) });
        let mut worker = Worker { index, tally: Tally::default(), recorded, shared: &shared };
        let result = job(&mut worker);
        let end = Instant::now();
        if result.is_err() {
            shared.failed.store(true, Relaxed);
        }
        result.map(|()| (foreground, worker.tally, worker.recorded, end))
    };
    let results = thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..threads)
            .map(|index| {
                let parent = thread::current();
                scope.spawn(move || work(index, parent))
            })
            .collect();
        while shared.running.load(Relaxed) > 0 {
            thread::park_timeout(Duration::from_millis(500));
            progress(shared.done[..plan.foreground].iter().map(|done| done.load(Relaxed)).sum());
        }
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked"))))
            .collect::<Vec<_>>()
    });
    let results = results.into_iter().collect::<Result<Vec<_>>>()?;

    let ends = results.iter().filter(|result| result.0).map(|result| result.3);
    let (began, end) = shared.began.into_inner().zip(ends.max()).context("a run without threads")?;
    let time = end - began;
    let (mut tally, mut all) = (Tally::default(), None::<Recorded>);
    for (foreground, part, recorded, ..) in results {
        tally += if foreground { part } else { Tally { ops: 0, found: 0, ..part } };
        let Some(mut recorded) = recorded else { continue };
        if !foreground {
            recorded.timeline = recorded.timeline.without_ops();
        }
        match &mut all {
            Some(all) => all.merge(recorded),
            None => all = Some(recorded),
        }
    }
    let recorded = all.filter(|all| all.latencies.recorded().next().is_some());
    let recorded = recorded.map(|it| Recorded { timeline: it.timeline.until(time), ..it });
    Ok(Outcome { tally, seconds: time.as_secs_f64(), recorded })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { foreground: 3, background: 0, histogram: true };

    #[test]
    fn sums_operations_and_times_over_threads() {
        let mut last = 0;
        let outcome = run(PLAN, &mut |done| last = done, &|worker| {
            for _ in 0..2000 {
                worker.timed(Kind::Get, || ());
                worker.did(1);
            }
            worker.timed(Kind::Put, || thread::sleep(Duration::from_millis(20)));
            worker.tally.written_bytes = 7;
            Ok(())
        })
        .unwrap();
        assert_eq!(outcome.tally, Tally { ops: 6000, written_bytes: 21, ..Tally::default() });
        assert_eq!(last, 3 * 1024);
        assert!(outcome.seconds >= 0.02);
        let Recorded { latencies, timeline } = outcome.recorded.unwrap();
        assert_eq!(timeline.spans().iter().map(|span| span.ops).sum::<u64>(), 6000);
        let kinds: Vec<_> = latencies.recorded().map(|(kind, times)| (kind, times.len())).collect();
        assert_eq!(kinds, [(Kind::Put, 3), (Kind::Get, 6000)]);
        assert!(latencies.recorded().next().unwrap().1.min() >= 19_980_000);
    }

    #[test]
    fn the_background_ends_with_the_foreground() {
        let plan = Plan { foreground: 1, background: 1, histogram: true };
        let outcome = run(plan, &mut |_| (), &|worker| {
            if worker.index == 0 {
                thread::sleep(Duration::from_millis(10));
                worker.did(1);
            }
            while worker.index == 1 && worker.foreground_works() {
                worker.timed(Kind::Put, || ());
                worker.did(1);
            }
            worker.tally.written_bytes = 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(outcome.tally, Tally { ops: 1, written_bytes: 2, ..Tally::default() });
        let timeline = outcome.recorded.unwrap().timeline;
        let spans = timeline.spans();
        assert_eq!(spans.iter().map(|span| span.ops).sum::<u64>(), 1, "as in the tally");
        assert!(spans.iter().any(|span| span.latencies(Kind::Put).is_some()), "the background is timed, too");
    }

    #[test]
    fn one_failure_ends_all() {
        let error = run(PLAN, &mut |_| (), &|worker| {
            anyhow::ensure!(worker.index != 1, "thread one fails");
            while worker.did(1) {}
            Ok(())
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "thread one fails");
    }
}
