//! The executor: runs the background jobs of a store in lanes. Each lane has its own queue and
//! threads. A job is a closure, and the executor does not know its content.
//!
//! If no thread of a lane is free when a job is submitted, the executor starts a thread. A thread
//! ends after a second without a job, so an idle store has no threads. If a thread cannot be
//! started, the job stays in the queue. Callers that wait for the job try again to start a thread
//! ([`Work::start_missing_threads`]).
//!
//! A manual executor has no threads. Its jobs wait until a test [steps](Work::step), so the test
//! decides the order of all background work.
use crate::clock::Clock;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    collections::VecDeque,
    panic::resume_unwind,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

/// The lanes of the executor. Each lane has its own threads, so a job in one lane never waits for
/// a thread of another lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Flush jobs, which write memtables to SSTables.
    Flush,
    /// Compaction jobs.
    Compact,
    /// Commits of pending edits to the manifest.
    Durability,
    /// Tail GC, which re-appends live values to the value log. The job writes as a user does, so it
    /// may wait for jobs in the lanes of flushes, compactions and durability.
    Relocate,
    /// The idle timer, and the syncs that [`Durable`](crate::Durable) requests. These jobs may wait
    /// for a writer, and the writer may wait for jobs in any other lane.
    Idle,
}

/// The kind of threads on which background jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// Threads that the store starts.
    Threads,
    /// The thread of the caller, which runs the jobs step by step.
    Manual,
}

type Jobs = VecDeque<(Lane, &'static str, Box<dyn FnOnce() + Send>)>;

/// Every lane, in the order of [`Queues::lanes`].
const LANES: [(Lane, &str); 5] = [
    (Lane::Flush, "terrace-flush"),
    (Lane::Compact, "terrace-compact"),
    (Lane::Durability, "terrace-durable"),
    (Lane::Relocate, "terrace-collect"),
    (Lane::Idle, "terrace-idle"),
];

/// The time without a job after which a thread ends.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Default)]
struct LaneThreads {
    running: usize,
    /// The number of the lane's threads that wait for a job.
    waiting: usize,
    most: usize,
}

struct Queues {
    jobs: Jobs,
    stopping: bool,
    lanes: [LaneThreads; LANES.len()],
    timer: Option<Timer>,
}

/// The idle timer: a function that the idle lane calls periodically.
#[derive(Clone)]
struct Timer {
    period: Duration,
    tick: Arc<dyn Fn() + Send + Sync>,
    running: bool,
}

impl Queues {
    fn waiting_jobs(&self, lane: Lane) -> usize {
        self.jobs.iter().filter(|(of, _, _)| *of == lane).count()
    }

    /// Returns whether `lane` needs a further thread and may have one.
    fn needs_thread(&self, lane: Lane) -> bool {
        let LaneThreads { running, waiting, most } = self.lanes[lane as usize];
        let ticks = lane == Lane::Idle && running == 0 && self.timer.as_ref().is_some_and(|timer| timer.running);
        !self.stopping && running < most && (self.waiting_jobs(lane) > waiting || ticks)
    }
}

/// The queues and the threads that serve them.
pub struct Work {
    queues: Mutex<Queues>, // guards the queues only; jobs run without it
    wake: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    executor: Executor,
}

impl Work {
    /// Makes an executor with empty queues and without threads.
    pub fn new(executor: Executor) -> Arc<Work> {
        Arc::new(Work {
            queues: Mutex::new(Queues {
                jobs: VecDeque::new(),
                stopping: false,
                lanes: Default::default(),
                timer: None,
            }),
            wake: Condvar::new(),
            threads: Mutex::default(),
            executor,
        })
    }

    /// Sets how many threads each lane may have: `compactions` for compactions, and one each for
    /// flushes, durability, tail GC and the idle lane. While the timer runs, the idle lane calls
    /// `tick` once every `period`. A manual executor gets no threads. Returns an error if the first
    /// thread cannot be started.
    pub fn start(
        self: &Arc<Work>,
        compactions: usize,
        period: Duration,
        tick: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<()> {
        if self.executor == Executor::Manual {
            return Ok(());
        }
        let mut queues = self.queues.lock();
        for (lane, _) in LANES {
            queues.lanes[lane as usize].most = if lane == Lane::Compact { compactions } else { 1 };
        }
        queues.timer = Some(Timer { period, tick: Arc::new(tick), running: true });
        self.start_thread_if_needed(&mut queues, Lane::Idle)
    }

    /// Starts the timer again after [`stop_timer`](Work::stop_timer). Returns false if the timer
    /// needs a thread that cannot be started.
    pub fn start_timer(self: &Arc<Work>) -> bool {
        let mut queues = self.queues.lock();
        let Some(timer) = &mut queues.timer else { return true };
        timer.running = true;
        self.wake.notify_all(); // a thread that waits for a job
        self.start_thread_if_needed(&mut queues, Lane::Idle).is_ok()
    }

    /// Stops the timer, so that its thread can end. The timer stays stopped until it is started
    /// again.
    pub fn stop_timer(&self) {
        if let Some(timer) = &mut self.queues.lock().timer {
            timer.running = false;
        }
    }

    /// Starts threads for jobs that still wait because a thread could not be started earlier.
    pub fn start_missing_threads(self: &Arc<Work>) {
        let mut queues = self.queues.lock();
        for (lane, _) in LANES {
            let _ = self.start_thread_if_needed(&mut queues, lane); // the caller tries again
        }
    }

    fn start_thread_if_needed(self: &Arc<Work>, queues: &mut Queues, lane: Lane) -> std::io::Result<()> {
        if !queues.needs_thread(lane) {
            return Ok(());
        }
        let work = self.clone();
        let serve = move || {
            terrace_storage::run_in_background();
            work.serve(lane);
        };
        let thread = thread::Builder::new().name(LANES[lane as usize].1.into()).spawn(serve)?;
        queues.lanes[lane as usize].running += 1;
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    /// Returns whether the executor is manual, so that the caller runs the jobs.
    pub fn is_manual(&self) -> bool {
        self.executor == Executor::Manual
    }

    /// Queues a job. If the executor is stopping, the job is dropped.
    pub fn submit(self: &Arc<Work>, lane: Lane, name: &'static str, job: impl FnOnce() + Send + 'static) {
        let mut queues = self.queues.lock();
        if !queues.stopping {
            queues.jobs.push_back((lane, name, Box::new(job)));
            let _ = self.start_thread_if_needed(&mut queues, lane); // a waiting caller tries again
            self.wake.notify_all();
        }
    }

    /// Runs one waiting job of a manual executor: the job with the number `pick` modulo the number
    /// of waiting jobs. Returns the name of the job.
    pub fn step(&self, pick: u64) -> Option<&'static str> {
        self.run_one(|jobs| (!jobs.is_empty()).then(|| (pick % jobs.len() as u64) as usize))
    }

    /// Runs the oldest waiting job of a manual executor that is not in one of `lanes`.
    pub fn step_except(&self, lanes: &[Lane]) -> Option<&'static str> {
        self.run_one(|jobs| jobs.iter().position(|(of, _, _)| !lanes.contains(of)))
    }

    /// Runs the oldest waiting job of a manual executor in `lane`.
    pub fn step_in(&self, lane: Lane) -> Option<&'static str> {
        self.run_one(|jobs| jobs.iter().position(|(of, _, _)| *of == lane))
    }

    fn run_one(&self, pick: impl FnOnce(&Jobs) -> Option<usize>) -> Option<&'static str> {
        let (_, name, job) = {
            let mut queues = self.queues.lock();
            let at = pick(&queues.jobs).filter(|_| self.is_manual())?;
            queues.jobs.remove(at)?
        };
        job();
        Some(name)
    }

    /// Runs `parts`, the parts of one job, in parallel, each on a separate thread. Returns their
    /// results in the order of the parts. A manual executor has no threads, so it runs the parts
    /// one after the other.
    pub fn run_parallel<T: Send>(&self, parts: Vec<impl FnOnce() -> T + Send>) -> Vec<T> {
        if self.is_manual() || parts.len() < 2 {
            return parts.into_iter().map(|part| part()).collect();
        }
        let count = parts.len();
        let (waiting, done) = (Mutex::new(parts.into_iter().enumerate()), Mutex::new(Vec::with_capacity(count)));
        let serve = || {
            let next = || waiting.lock().next();
            while let Some((at, part)) = next() {
                let result = part();
                done.lock().push((at, result));
            }
        };
        thread::scope(|scope| {
            let spawn = |_| thread::Builder::new().name("terrace-part".into()).spawn_scoped(scope, serve).ok();
            // If a thread cannot be started, the calling thread runs the thread's part too. The
            // result is the same, but takes longer.
            let helpers: Vec<_> = (1..count).filter_map(spawn).collect();
            serve();
            // The thread scope would join these threads too, but ThreadSanitizer recognizes only an
            // explicit join.
            helpers.into_iter().for_each(|helper| helper.join().unwrap_or_else(|panicked| resume_unwind(panicked)));
        });
        let mut done = done.into_inner();
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// Returns whether the executor is stopping. Long jobs check this regularly, so that they end
    /// early.
    pub fn stopping(&self) -> bool {
        self.queues.lock().stopping
    }

    /// Stops the executor: drops waiting jobs and joins all threads except the calling thread.
    pub fn stop(&self) {
        let dropped: Vec<_> = {
            let mut queues = self.queues.lock();
            queues.stopping = true;
            self.wake.notify_all();
            queues.jobs.drain(..).collect()
        };
        drop(dropped); // outside the lock: a job may own values whose drop takes locks
        let threads: Vec<_> = self.threads.lock().drain(..).collect();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join(); // jobs catch their own panics
        }
    }

    /// Runs the jobs of `lane` on the calling thread, and in the idle lane also the ticks of the
    /// timer. Returns when there has been no job for [`KEEP_ALIVE`].
    fn serve(&self, lane: Lane) {
        let clock = Clock::start();
        let mut next_tick = None;
        let mut panicked = Panicked { work: self, lane, over: false };
        let mut queues = self.queues.lock();
        let mut idle_since = clock.now();
        while !queues.stopping {
            let timer = queues.timer.clone().filter(|timer| lane == Lane::Idle && timer.running);
            next_tick = timer.as_ref().map(|timer| next_tick.unwrap_or_else(|| clock.now() + timer.period));
            if let (Some(timer), Some(due)) = (&timer, next_tick)
                && clock.now() >= due
            {
                MutexGuard::unlocked(&mut queues, || (timer.tick)());
                (next_tick, idle_since) = (Some(clock.now() + timer.period), clock.now());
            } else if let Some(at) = queues.jobs.iter().position(|(of, _, _)| *of == lane) {
                let (_, _, job) = queues.jobs.remove(at).expect("found under the same lock");
                MutexGuard::unlocked(&mut queues, job);
                idle_since = clock.now();
            } else {
                let end = next_tick.unwrap_or(idle_since + KEEP_ALIVE);
                if next_tick.is_none() && clock.now() >= end {
                    break;
                }
                queues.lanes[lane as usize].waiting += 1;
                self.wake.wait_for(&mut queues, end.saturating_sub(clock.now()));
                queues.lanes[lane as usize].waiting -= 1;
            }
        }
        queues.lanes[lane as usize].running -= 1; // under the lock that found no job
        panicked.over = true;
    }
}

/// A drop guard for a thread of a lane. If a panic ends the thread, the drop of the guard updates
/// the number of threads, so that the lane can start another thread.
struct Panicked<'a> {
    work: &'a Work,
    lane: Lane,
    /// Whether the thread has ended without a panic.
    over: bool,
}

impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.work.queues.lock().lanes[self.lane as usize].running -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_run_in_parallel_and_return_results_in_order() {
        for executor in [Executor::Threads, Executor::Manual] {
            let parts: Vec<_> = (0..20u64).map(|n| move || n * n).collect();
            assert_eq!(Work::new(executor).run_parallel(parts), (0..20u64).map(|n| n * n).collect::<Vec<_>>());
            assert!(Work::new(executor).run_parallel(Vec::<fn()>::new()).is_empty());
        }
        let meet = std::sync::Barrier::new(2);
        let wait = || meet.wait().is_leader();
        // The two parts of this job wait for each other. If the executor ran them one after the
        // other, the first one would wait for ever.
        let leaders = Work::new(Executor::Threads).run_parallel(vec![wait, wait]);
        assert_ne!(leaders[0], leaders[1]);
    }

    #[test]
    fn a_panic_of_a_part_reaches_the_caller() {
        let parts: Vec<_> = (0..4u64).map(|n| move || assert_ne!(n, 2)).collect();
        let outcome = std::panic::catch_unwind(|| Work::new(Executor::Threads).run_parallel(parts));
        assert!(outcome.is_err());
    }
}
