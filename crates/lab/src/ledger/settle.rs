//! When is background work over? The same rule for every engine.
//!
//! Settled: for one second no thread of the engine used more than 1 % of a processor and the process wrote nothing. The thread
//! that looks is none of the engine's: looking takes more than that where the kernel is slow to answer.
//! Then the file system is synced once, inside the measured window, so that the device has all that was written.
use super::{Ledger, own::Registration, process};
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

/// How long nothing may happen; taken off the time that settling took.
const QUIET: Duration = Duration::from_secs(1);
/// After this it is given up, and the row says so.
const CAP: Duration = Duration::from_secs(600);
const PERIOD: Duration = Duration::from_millis(50);
/// Every so many samples it is told how long it has been.
const TELL_EACH: u32 = 5;
/// Name of the thread that looks.
const WATCHER: &str = "ledger-settle";
/// 1 % of [`QUIET`], in ns.
const BUSY_NS: u64 = 10_000_000;

/// How settling went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settled {
    /// From the call until the quiet second began, and then the sync: what a write workload left to do.
    pub seconds: f64,
    /// Of these, in the one `syncfs`, which is the lab's: it is no sync of the engine.
    pub sync_seconds: f64,
    /// False if the engine was still at work after 600 s.
    pub settled: bool,
}

/// What is looked at, at one moment.
struct Sample {
    at: Duration,
    threads_ns: BTreeMap<i32, u64>,
    /// Bytes handed to `write` and bytes dirtied (by `mmap`, say), in all.
    written: u64,
}

/// Waits until background work is over, then syncs the file system of the store.
///
/// `progress` hears every 250 ms how long it has waited; what it writes (a progress line) is not taken for the engine's.
///
/// # Errors
/// The kernel's counters cannot be read, so nobody can tell; or the sync failed.
pub fn settle(ledger: &mut Ledger, progress: &mut dyn FnMut(Duration)) -> io::Result<Settled> {
    let (waited, settled) = wait_until_quiet(progress, CAP)?;
    let sync_seconds = sync_as_ledger(ledger)?.as_secs_f64();
    Ok(Settled { seconds: waited.as_secs_f64() + sync_seconds, sync_seconds, settled })
}

/// Looks from a thread of the ledger's, so that what looking takes is not the engine's; tells from the calling one.
fn wait_until_quiet(progress: &mut dyn FnMut(Duration), cap: Duration) -> io::Result<(Duration, bool)> {
    // Held while something is told, so that no sample is taken between the telling and its being known.
    let told_bytes = &Mutex::new(0);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let work = move || {
            let registration = Registration::of_this_thread();
            let watched = watch_until_quiet(told_bytes, &tell, cap);
            registration.iter().for_each(Registration::account);
            watched
        };
        let watcher = thread::Builder::new().name(WATCHER.into()).spawn_scoped(scope, work)?;
        for waited in told {
            let mut told_bytes = told_bytes.lock().unwrap_or_else(PoisonError::into_inner);
            let before = written_bytes()?;
            progress(waited);
            *told_bytes += written_bytes()?.saturating_sub(before);
        }
        watcher.join().map_err(|_| io::Error::other("the thread that looks panicked"))?
    })
}

/// How long it took until the quiet second began, and whether there was one before `cap`; or until nobody listens to `tell`.
fn watch_until_quiet(told_bytes: &Mutex<u64>, tell: &Sender<Duration>, cap: Duration) -> io::Result<(Duration, bool)> {
    let start = Instant::now();
    let mut samples = VecDeque::new();
    for number in 1.. {
        let (threads_ns, written) = sample(told_bytes)?;
        samples.push_back(Sample { at: start.elapsed(), threads_ns, written });
        // The oldest sample is kept at least QUIET old: with the next one as the oldest the window would be too short.
        while samples.get(1).is_some_and(|next| start.elapsed().saturating_sub(next.at) >= QUIET) {
            samples.pop_front();
        }
        if is_quiet(&samples) {
            return Ok((samples[0].at, true));
        }
        if start.elapsed() >= cap || number % TELL_EACH == 0 && tell.send(start.elapsed()).is_err() {
            break;
        }
        thread::sleep(PERIOD);
    }
    Ok((start.elapsed(), false))
}

/// Time of each thread, and bytes written by others than who tells.
fn sample(told_bytes: &Mutex<u64>) -> io::Result<(BTreeMap<i32, u64>, u64)> {
    let told_bytes = told_bytes.lock().unwrap_or_else(PoisonError::into_inner);
    let threads =
        process::threads_ns().ok_or_else(|| io::Error::other("/proc/self/task/*/schedstat cannot be read"))?;
    Ok((threads, written_bytes()?.saturating_sub(*told_bytes)))
}

fn written_bytes() -> io::Result<u64> {
    let io = process::io().ok_or_else(|| io::Error::other("/proc/self/io cannot be read"))?;
    Ok(io.wchar + io.write_bytes)
}

/// Whether `samples`, oldest first, cover [`QUIET`] and nothing happened in them.
fn is_quiet(samples: &VecDeque<Sample>) -> bool {
    let (Some(first), Some(last)) = (samples.front(), samples.back()) else { return false };
    if last.at - first.at < QUIET || last.written != first.written {
        return false;
    }
    // A thread is followed from where it is first seen to where it is last seen; one that is born inside the window
    // has its whole life in it.
    let mut seen: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
    for sample in samples {
        for (&tid, &ns) in &sample.threads_ns {
            let born = if first.threads_ns.contains_key(&tid) { ns } else { 0 };
            seen.entry(tid).or_insert((born, ns)).1 = ns;
        }
    }
    seen.values().all(|(from, to)| to.saturating_sub(*from) <= BUSY_NS)
}

/// Syncs the store's file system from a thread of the ledger's, so that it is not counted as the engine's sync. How long that
/// took.
fn sync_as_ledger(ledger: &Ledger) -> io::Result<Duration> {
    let dir = File::open(&ledger.dir)?;
    // What a store without a file system has handed to the kernel is a device's, not a file system's.
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
    // The event is read while its thread is still known as ours. The reading itself is nobody's business here.
    ledger.mark();
    drop(done.1);
    done.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds, time of each thread, bytes written.
    type Row<'a> = (u64, &'a [(i32, u64)], u64);

    fn samples(all: &[Row<'_>]) -> VecDeque<Sample> {
        let of = |&(ms, threads, written): &Row<'_>| Sample {
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
        assert!(!is_quiet(&samples(came_and_went)), "a thread came, worked and went");
    }

    #[test]
    fn work_is_waited_for_and_the_quiet_second_is_taken_off() {
        let file = tempfile::tempfile().expect("a file");
        let worker = thread::spawn(move || {
            use std::io::Write;
            let end = Instant::now() + Duration::from_millis(700);
            while Instant::now() < end {
                (&file).write_all(&[0; 4096]).expect("written");
                thread::sleep(Duration::from_millis(20));
            }
        });
        // Other tests write in this process at the same time, so only the lower bound is sure.
        let (waited, settled) = wait_until_quiet(&mut |_| {}, Duration::from_secs(30)).expect("counters");
        worker.join().expect("it writes");
        assert!(!settled || waited >= Duration::from_millis(650), "{waited:?}");
    }

    #[test]
    fn it_gives_up_at_the_cap_and_does_not_look_at_itself() {
        assert!(WATCHER.len() < 16, "the kernel keeps no longer names");
        let mut told = 0;
        let mut look = |_| {
            told += 1;
            let counted = |_| process::threads_named().expect("counters").values().any(|(name, _)| name == WATCHER);
            // Another test's thread counts until it has said whose it is.
            assert!(!(0..20).all(counted), "what looking takes keeps it waiting");
        };
        let (waited, settled) = wait_until_quiet(&mut look, Duration::from_millis(600)).expect("counters");
        assert!(!settled && waited >= Duration::from_millis(600));
        assert!(told > 0);
    }
}
