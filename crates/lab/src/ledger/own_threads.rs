//! Registry of the threads that belong to the ledger (the lab's cost counters). The processor time
//! and the I/O of these threads are not charged to the engine.
use nix::sys::resource::{Usage, UsageWho, getrusage};
use std::{
    collections::BTreeMap,
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The ledger's threads and their processor time, in seconds in user mode and in kernel mode.
/// `finished` is the total time of the threads that have ended.
struct LedgerThreads {
    threads: BTreeMap<i32, (f64, f64)>,
    finished: (f64, f64),
}

/// The registry of this process. A process has only one, because the registry corrects figures of
/// the whole process.
static LEDGER_THREADS: Mutex<LedgerThreads> =
    Mutex::new(LedgerThreads { threads: BTreeMap::new(), finished: (0.0, 0.0) });

fn own() -> MutexGuard<'static, LedgerThreads> {
    LEDGER_THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks the thread that created it as a thread of the ledger. The mark ends when this value is
/// dropped.
pub struct Registration {
    tid: i32,
}

impl Registration {
    /// Registers the calling thread; `None` without `/proc`.
    pub fn of_this_thread() -> Option<Registration> {
        let link = fs::read_link("/proc/thread-self").ok()?;
        let tid = link.file_name()?.to_str()?.parse().ok()?;
        own().threads.insert(tid, (0.0, 0.0));
        Some(Registration { tid })
    }

    /// Updates the processor time of the registered thread. The thread itself calls this function
    /// after each piece of work.
    pub fn account(&self) {
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) {
            own().threads.insert(self.tid, seconds(&usage));
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut own = own();
        if let Some((user, system)) = own.threads.remove(&self.tid) {
            own.finished.0 += user;
            own.finished.1 += system;
        }
    }
}

/// Returns whether the thread `tid` is a thread of the ledger.
pub fn is_own(tid: i32) -> bool {
    own().threads.contains_key(&tid)
}

/// Returns the processor time that the ledger's threads have used so far, in seconds in user mode
/// and in kernel mode.
pub fn cpu() -> (f64, f64) {
    let own = own();
    own.threads.values().fold(own.finished, |sum, used| (sum.0 + used.0, sum.1 + used.1))
}

/// Returns user and kernel time in seconds.
pub fn seconds(usage: &Usage) -> (f64, f64) {
    let of = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    (of(usage.user_time()), of(usage.system_time()))
}
