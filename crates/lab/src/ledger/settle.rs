//! Detects the end of an engine's background work, by the same rule for every engine.
//!
//! An engine has settled if for one second no thread used more than 1 % of a processor and the
//! process wrote nothing. A thread of the ledger observes the process. This thread itself is
//! excluded, because it may use more than 1 % on a machine with a slow kernel. After the quiet
//! second, the lab syncs the file system once, so that all writes are on the device. This sync is
//! a part of the measurement.
use super::{Ledger, own_threads::Registration, process};
use crate::target::BARE;
use nix::unistd::syncfs;
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io,
    sync::{
        Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant},
};

/// Length of the quiet period that ends the wait. This period is not part of the settle time.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum time to wait for the end of background work. If the engine needs more time, the row
/// reports that it did not settle.
const MAX_WAIT: Duration = Duration::from_secs(600);
const PERIOD: Duration = Duration::from_millis(50);
/// Number of activity samples between two progress reports.
const REPORT_EVERY: u32 = 5;
/// Name of the watching thread.
const WATCHER: &str = "ledger-settle";
/// Time on a processor, in ns, above which a thread is busy: 1 % of [`QUIET`].
const BUSY_NS: u64 = 10_000_000;

/// Result of waiting for the end of background work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settled {
    /// Seconds from the call until the quiet second began, plus the seconds of the sync. For a
    /// workload that writes, this is the time of the work that the engine deferred.
    pub seconds: f64,
    /// Seconds of the single `syncfs`. The lab calls it, not the engine.
    pub sync_seconds: f64,
    /// Whether the engine finished within 600 s.
    pub settled: bool,
}

/// One sample of the process's activity.
struct ActivitySample {
    at: Duration,
    threads_ns: BTreeMap<i32, u64>,
    /// Bytes passed to `write`, plus bytes dirtied in another way, for example through `mmap`.
    written: u64,
}

/// Waits until background work has ended, then syncs the store's file system.
///
/// `progress` receives the time waited so far every 250 ms. If `progress` itself writes bytes,
/// such as a progress line, they are not charged to the engine.
///
/// # Errors
/// The kernel's counters cannot be read, or the sync failed.
pub fn settle(ledger: &mut Ledger, progress: &mut dyn FnMut(Duration)) -> io::Result<Settled> {
    let (waited, settled) = wait_until_quiet(progress, MAX_WAIT)?;
    let sync_seconds = sync_as_ledger(ledger)?.as_secs_f64();
    Ok(Settled { seconds: waited.as_secs_f64() + sync_seconds, sync_seconds, settled })
}

/// Waits until the process is quiet. A thread of the ledger observes the process, so the cost of
/// the observation is not charged to the engine. The calling thread reports progress.
fn wait_until_quiet(progress: &mut dyn FnMut(Duration), cap: Duration) -> io::Result<(Duration, bool)> {
    // The calling thread holds the lock of `reported_bytes` while it reports progress. The
    // observing thread therefore takes no sample before the bytes of the report are accounted.
    let reported_bytes = &Mutex::new(0);
    let (report, reports) = mpsc::channel();
    thread::scope(|scope| {
        let work = move || {
            let registration = Registration::of_this_thread();
            let watched = watch_until_quiet(reported_bytes, &report, cap);
            registration.iter().for_each(Registration::account);
            watched
        };
        let watcher = thread::Builder::new().name(WATCHER.into()).spawn_scoped(scope, work)?;
        for waited in reports {
            let mut reported_bytes = reported_bytes.lock().unwrap_or_else(PoisonError::into_inner);
            let before = written_bytes()?;
            progress(waited);
            *reported_bytes += written_bytes()?.saturating_sub(before);
        }
        watcher.join().map_err(|_| io::Error::other("the watching thread panicked"))?
    })
}

/// Returns the time until the quiet second began, and whether it began before `cap`. The function
/// returns early if the receiver of `report` is dropped.
fn watch_until_quiet(
    reported_bytes: &Mutex<u64>,
    report: &Sender<Duration>,
    cap: Duration,
) -> io::Result<(Duration, bool)> {
    let start = Instant::now();
    let mut samples = VecDeque::new();
    for number in 1.. {
        let (threads_ns, written) = sample(reported_bytes)?;
        samples.push_back(ActivitySample { at: start.elapsed(), threads_ns, written });
        // All samples together must cover at least [`QUIET`]. The oldest sample is therefore
        // dropped only if the second oldest is already [`QUIET`] old.
        while samples.get(1).is_some_and(|next| start.elapsed().saturating_sub(next.at) >= QUIET) {
            samples.pop_front();
        }
        if is_quiet(&samples) {
            return Ok((samples[0].at, true));
        }
        if start.elapsed() >= cap || number % REPORT_EVERY == 0 && report.send(start.elapsed()).is_err() {
            break;
        }
        thread::sleep(PERIOD);
    }
    Ok((start.elapsed(), false))
}

/// Returns the processor time of each thread in ns, and the number of bytes that the process has
/// written. Bytes of progress reports are not included.
fn sample(reported_bytes: &Mutex<u64>) -> io::Result<(BTreeMap<i32, u64>, u64)> {
    let reported_bytes = reported_bytes.lock().unwrap_or_else(PoisonError::into_inner);
    let threads =
        process::threads_ns().ok_or_else(|| io::Error::other("/proc/self/task/*/schedstat cannot be read"))?;
    Ok((threads, written_bytes()?.saturating_sub(*reported_bytes)))
}

fn written_bytes() -> io::Result<u64> {
    let io = process::io().ok_or_else(|| io::Error::other("/proc/self/io cannot be read"))?;
    Ok(io.wchar + io.write_bytes)
}

/// Returns whether `samples`, oldest first, cover at least [`QUIET`] without activity.
fn is_quiet(samples: &VecDeque<ActivitySample>) -> bool {
    let (Some(first), Some(last)) = (samples.front(), samples.back()) else { return false };
    if last.at - first.at < QUIET || last.written != first.written {
        return false;
    }
    // The activity of a thread is its processor time between the first and the last of `samples`. A
    // thread that is not in the first sample started later, so its time in that sample is zero.
    let mut seen: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
    for sample in samples {
        for (&tid, &ns) in &sample.threads_ns {
            let born = if first.threads_ns.contains_key(&tid) { ns } else { 0 };
            seen.entry(tid).or_insert((born, ns)).1 = ns;
        }
    }
    seen.values().all(|(from, to)| to.saturating_sub(*from) <= BUSY_NS)
}

/// Syncs the store's file system from a thread of the ledger, so that the sync is not counted as
/// the engine's. Returns the duration.
fn sync_as_ledger(ledger: &Ledger) -> io::Result<Duration> {
    let dir = File::open(&ledger.dir)?;
    // If the store has no file system, its data is on a device, and that device is synced.
    let bare = match File::open(ledger.dir.join(BARE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        opened => Some(opened?),
    };
    let work = move || {
        let registration = Registration::of_this_thread();
        let start = Instant::now();
        let synced = syncfs(dir).map_err(io::Error::from).and_then(|()| bare.map_or(Ok(()), |bare| bare.sync_all()));
        (synced.map(|()| start.elapsed()), registration)
    };
    let done = thread::spawn(work).join().map_err(|_| io::Error::other("the syncing thread panicked"))?;
    // The ledger reads the trace while this thread is still registered, so that it recognises the
    // sync as its own. The result of the reading is not used.
    ledger.mark();
    drop(done.1);
    done.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An activity sample in a compact form: time in ms, processor time of each thread in ns, and
    /// bytes written.
    type Row<'a> = (u64, &'a [(i32, u64)], u64);

    fn samples(all: &[Row<'_>]) -> VecDeque<ActivitySample> {
        let of = |&(ms, threads, written): &Row<'_>| ActivitySample {
            at: Duration::from_millis(ms),
            threads_ns: threads.iter().copied().collect(),
            written,
        };
        all.iter().map(of).collect()
    }

    #[test]
    fn quiet_is_a_whole_second_without_writes_or_work() {
        let work = BUSY_NS + 1;
        assert!(is_quiet(&samples(&[(0, &[(1, 5)], 7), (1000, &[(1, 5 + BUSY_NS)], 7)])));
        assert!(!is_quiet(&samples(&[(0, &[(1, 5)], 7), (999, &[(1, 5)], 7)])), "too short");
        assert!(!is_quiet(&samples(&[(0, &[(1, 5)], 7), (1000, &[(1, 5)], 8)])), "wrote");
        assert!(!is_quiet(&samples(&[(0, &[(1, 5)], 7), (1000, &[(1, 5 + work)], 7)])), "worked");
        assert!(!is_quiet(&samples(&[(0, &[], 7), (1000, &[(2, work)], 7)])), "a new thread worked");
        let came_and_went: &[Row<'_>] = &[(0, &[], 7), (500, &[(2, work)], 7), (1000, &[], 7)];
        assert!(!is_quiet(&samples(came_and_went)), "a thread started, worked and ended");
    }

    #[test]
    fn settling_waits_for_work_and_excludes_the_quiet_second() {
        let file = tempfile::tempfile().expect("a file");
        let worker = thread::spawn(move || {
            use std::io::Write;
            let end = Instant::now() + Duration::from_millis(700);
            while Instant::now() < end {
                (&file).write_all(&[0; 4096]).expect("written");
                thread::sleep(Duration::from_millis(20));
            }
        });
        // Tests run in parallel in one process. While other tests write, the quiet second cannot
        // begin, so this test can check only a lower bound of the wait.
        let (waited, settled) = wait_until_quiet(&mut |_| {}, Duration::from_secs(30)).expect("counters");
        worker.join().expect("it writes");
        assert!(!settled || waited >= Duration::from_millis(650), "{waited:?}");
    }

    #[test]
    fn settling_stops_at_the_cap_and_ignores_its_own_thread() {
        assert!(WATCHER.len() < 16, "the kernel truncates longer names");
        let mut reports = 0;
        let mut look = |_| {
            reports += 1;
            let counted = |_| process::threads_named().expect("counters").values().any(|(name, _)| name == WATCHER);
            // The observing thread of another test is counted as activity until that thread has
            // registered itself.
            assert!(!(0..20).all(counted), "the watching thread counts as activity");
        };
        let (waited, settled) = wait_until_quiet(&mut look, Duration::from_millis(600)).expect("counters");
        assert!(!settled && waited >= Duration::from_millis(600));
        assert!(reports > 0);
    }
}
