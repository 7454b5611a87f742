//! Runs a job on several threads that start together. Measures the time of the job, and the
//! latency of each kind of operation: as a histogram of the whole run, and over time.
mod kind;
mod latencies;
mod timeline;

pub use kind::Kind;
pub use latencies::Latencies;
pub use timeline::{Span, Timeline};

use anyhow::{Context, Result, anyhow};
use std::{
    ops::AddAssign,
    sync::{
        Barrier, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// The work that a thread or a run has completed, as counts of operations and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of operations.
    pub ops: u64,
    /// Number of reads that found their key.
    pub found: u64,
    /// Keys and values of acknowledged puts, and keys of deletes, in bytes.
    pub written_bytes: u64,
    /// Keys and values returned by reads, in bytes.
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

/// Number of threads of a run, and whether it records latencies.
#[derive(Clone, Copy, Debug)]
pub struct ThreadPlan {
    /// Number of foreground threads. The workload ends when they have ended, and only their
    /// operations are counted.
    pub foreground: usize,
    /// Number of background threads. They work until the foreground threads have ended. Their bytes
    /// and latencies are included in the result, but their operations are not.
    pub background: usize,
    /// Whether latencies are recorded.
    pub histogram: bool,
}

/// Result of running a job.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Totals of all threads. The number of operations and the number of reads that found their key
    /// exclude background threads.
    pub tally: Tally,
    /// Seconds from the first to the last operation of the foreground threads.
    pub seconds: f64,
    /// The recorded latencies; `None` if no latencies were recorded.
    pub recorded: Option<Recorded>,
}

/// Recorded latencies.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Latencies of the whole run.
    pub latencies: Latencies,
    /// Operations and latencies over time.
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

/// State of one thread of a run. The thread uses it to count operations and to record latencies.
#[derive(Debug)]
pub struct Worker<'a> {
    /// Index of the thread from 0. Background threads have higher indexes than foreground threads.
    pub index: usize,
    /// Completed work of this thread.
    pub tally: Tally,
    recorded: Option<Recorded>,
    shared: &'a RunState,
}

#[derive(Debug)]
struct RunState {
    failed: AtomicBool,
    foreground_left: AtomicUsize,
    running: AtomicUsize,
    done: Vec<AtomicU64>,
    /// Start of the run, the same for all threads.
    began: OnceLock<Instant>,
}

/// Number of operations between two progress updates of a thread; a power of two.
const PROGRESS_OPS: u64 = 1024;

impl Worker<'_> {
    /// Performs a call. If latencies are recorded, records the call's latency.
    #[inline]
    pub fn timed<T>(&mut self, kind: Kind, call: impl FnOnce() -> T) -> T {
        let Some(recorded) = &mut self.recorded else { return call() };
        let start = Instant::now();
        let result = call();
        recorded.record(kind, start, Instant::now());
        result
    }

    /// Returns the current time if latencies are recorded, otherwise `None`. A thread uses it for
    /// operations that are not a single call, so that [`timed`](Worker::timed) cannot wrap them.
    #[inline]
    pub fn now(&self) -> Option<Instant> {
        self.recorded.is_some().then(Instant::now)
    }

    /// Records the latency of an operation that began at `start`. `start` is the result of an
    /// earlier call of [`now`](Worker::now).
    #[inline]
    pub fn record_since(&mut self, kind: Kind, start: Option<Instant>) {
        if let (Some(recorded), Some(start)) = (&mut self.recorded, start) {
            recorded.record(kind, start, Instant::now());
        }
    }

    /// Records the latency of a step that began at `start`, as
    /// [`record_since`](Worker::record_since) does. Returns the current time, which is the start of
    /// the next step. A step of a scan costs little more than reading the clock, so each step reads
    /// the clock only once.
    #[inline]
    pub fn record_lap(&mut self, kind: Kind, start: Option<Instant>) -> Option<Instant> {
        let (recorded, start) = (self.recorded.as_mut()?, start?);
        let now = Instant::now();
        recorded.record(kind, start, now);
        Some(now)
    }

    /// Counts finished operations. Returns false if another thread has failed, so that this thread
    /// must end.
    #[inline]
    pub fn did(&mut self, ops: u64) -> bool {
        let before = self.tally.ops;
        self.tally.ops += ops;
        if let Some(recorded) = &mut self.recorded {
            recorded.timeline.did(ops);
        }
        if before / PROGRESS_OPS != self.tally.ops / PROGRESS_OPS {
            self.shared.done[self.index].store(self.tally.ops, Relaxed);
            return !self.shared.failed.load(Relaxed);
        }
        true
    }

    /// Returns whether a foreground thread is still working and no thread has failed.
    pub fn foreground_works(&self) -> bool {
        self.shared.foreground_left.load(Relaxed) > 0 && !self.shared.failed.load(Relaxed)
    }
}

/// Marks a thread as ended when the guard is dropped, even after a panic. Otherwise other threads
/// would wait for the thread forever.
struct ThreadEndGuard<'a> {
    shared: &'a RunState,
    foreground: bool,
    parent: thread::Thread,
}

impl Drop for ThreadEndGuard<'_> {
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

/// Runs `job` on every thread of `plan`. About twice a second, `progress` receives the number of
/// finished foreground operations. If a thread fails, all threads end, and the first failure is
/// returned.
pub fn run(
    plan: ThreadPlan,
    progress: &mut dyn FnMut(u64),
    job: &(dyn Fn(&mut Worker<'_>) -> Result<()> + Sync),
) -> Result<Outcome> {
    let threads = plan.foreground + plan.background;
    let shared = RunState {
        failed: AtomicBool::new(false),
        foreground_left: AtomicUsize::new(plan.foreground),
        running: AtomicUsize::new(threads),
        done: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        began: OnceLock::new(),
    };
    let barrier = Barrier::new(threads);
    let work = |index: usize, parent: thread::Thread| {
        let foreground = index < plan.foreground;
        let _ending = ThreadEndGuard { shared: &shared, foreground, parent };
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

    const PLAN: ThreadPlan = ThreadPlan { foreground: 3, background: 0, histogram: true };

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
        let plan = ThreadPlan { foreground: 1, background: 1, histogram: true };
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
        assert!(spans.iter().any(|span| span.latencies(Kind::Put).is_some()), "background latencies are recorded, too");
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
