//! The executor: lanes of threads that run closures. It does not know the content of a job.
//!
//! A manual executor has no threads: jobs wait until a test [steps](Work::step), which decides
//! the order of all background work.
use crate::clock::Clock;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    collections::VecDeque,
    panic::resume_unwind,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

/// Lanes of jobs. A job of one lane never waits for a thread that another lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Flush jobs: memtables to SSTables.
    Flush,
    /// Compaction jobs.
    Compact,
    /// Commits of pending edits to the manifest.
    Durability,
    /// Tail GC: re-appends live values to the value log. It writes as a user does and may wait for
    /// every lane above.
    Relocate,
    /// The idle timer and syncs for [`Durable`](crate::Durable). They may wait for a writer, which
    /// may wait for any other lane.
    Idle,
}

/// The thread on which background jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// Threads of the store's own.
    Threads,
    /// The caller's, step by step.
    Manual,
}

type Jobs = VecDeque<(Lane, &'static str, Box<dyn FnOnce() + Send>)>;

struct Queues {
    jobs: Jobs,
    stopping: bool,
}

/// The queues and the threads that serve them.
pub struct Work {
    queues: Mutex<Queues>, // guards the queues only; jobs run without it
    wake: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    executor: Executor,
}

impl Work {
    /// Queues without threads.
    pub fn new(executor: Executor) -> Arc<Work> {
        Arc::new(Work {
            queues: Mutex::new(Queues { jobs: VecDeque::new(), stopping: false }),
            wake: Condvar::new(),
            threads: Mutex::default(),
            executor,
        })
    }

    /// Starts the threads: one for flushes, `compactions` for compactions, one for durability, one
    /// for tail GC if `relocates`, and one that calls `tick` once every `period`. A manual executor
    /// starts none.
    pub fn start(
        self: &Arc<Work>,
        compactions: usize,
        relocates: bool,
        period: Duration,
        tick: impl Fn() + Send + 'static,
    ) -> std::io::Result<()> {
        if self.executor == Executor::Manual {
            return Ok(());
        }
        let mut threads = self.threads.lock();
        let mut spawn = |name: &str, serve: Box<dyn FnOnce(&Work) + Send>| -> std::io::Result<()> {
            let work = self.clone();
            threads.push(thread::Builder::new().name(name.into()).spawn(move || {
                terrace_storage::run_in_background();
                serve(&work);
            })?);
            Ok(())
        };
        spawn("terrace-flush", Box::new(|work| work.serve(Lane::Flush, None)))?;
        for _ in 0..compactions {
            spawn("terrace-compact", Box::new(|work| work.serve(Lane::Compact, None)))?;
        }
        spawn("terrace-durable", Box::new(|work| work.serve(Lane::Durability, None)))?;
        if relocates {
            spawn("terrace-collect", Box::new(|work| work.serve(Lane::Relocate, None)))?;
        }
        spawn("terrace-idle", Box::new(move |work| work.serve(Lane::Idle, Some((period, &tick)))))
    }

    /// Returns whether the caller runs the jobs.
    pub fn is_manual(&self) -> bool {
        self.executor == Executor::Manual
    }

    /// Queues a job. Drops it if the executor is stopping.
    pub fn submit(&self, lane: Lane, name: &'static str, job: impl FnOnce() + Send + 'static) {
        let mut queues = self.queues.lock();
        if !queues.stopping {
            queues.jobs.push_back((lane, name, Box::new(job)));
            self.wake.notify_all();
        }
    }

    /// Runs one waiting job of a manual executor, number `pick` modulo the number of waiting jobs.
    /// Returns its name.
    pub fn step(&self, pick: u64) -> Option<&'static str> {
        self.run_one(|jobs| (!jobs.is_empty()).then(|| (pick % jobs.len() as u64) as usize))
    }

    /// Runs the oldest waiting job of a manual executor that is in none of `lanes`.
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

    /// Runs the parts of one job in parallel, each on its own thread, and returns their results in
    /// order. A manual executor, which has no threads, runs them one after the other.
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
            // A part without a thread of its own runs on this one, which costs time and nothing
            // else.
            let helpers: Vec<_> = (1..count).filter_map(spawn).collect();
            serve();
            // The scope would join them too, but ThreadSanitizer sees only an explicit join.
            helpers.into_iter().for_each(|helper| helper.join().unwrap_or_else(|panicked| resume_unwind(panicked)));
        });
        let mut done = done.into_inner();
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// Returns whether the executor is stopping. Long jobs check it now and then.
    pub fn stopping(&self) -> bool {
        self.queues.lock().stopping
    }

    /// Drops waiting jobs and joins the threads, except the one that calls this.
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

    fn serve(&self, lane: Lane, tick: Option<(Duration, &dyn Fn())>) {
        let clock = Clock::start();
        let mut next_tick = tick.map(|(period, _)| period);
        let mut queues = self.queues.lock();
        while !queues.stopping {
            if let (Some((period, tick)), Some(due)) = (tick, next_tick)
                && clock.now() >= due
            {
                MutexGuard::unlocked(&mut queues, tick);
                next_tick = Some(clock.now() + period);
            } else if let Some(at) = queues.jobs.iter().position(|(of, _, _)| *of == lane) {
                let (_, _, job) = queues.jobs.remove(at).expect("found under the same lock");
                MutexGuard::unlocked(&mut queues, job);
            } else {
                match next_tick {
                    Some(due) => drop(self.wake.wait_for(&mut queues, due.saturating_sub(clock.now()))),
                    None => self.wake.wait(&mut queues),
                }
            }
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
        // Run one after the other, they would never end.
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
