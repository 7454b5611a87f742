//! Threads of the ledger itself, so that what they use is not charged to the engine.
use nix::sys::resource::{Usage, UsageWho, getrusage};
use std::{
    collections::BTreeMap,
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Seconds of processor time by thread, user and system; `finished` is what threads used that are gone.
struct Own {
    threads: BTreeMap<i32, (f64, f64)>,
    finished: (f64, f64),
}

/// One for the process, as the figures that it corrects are the process's.
static OWN: Mutex<Own> = Mutex::new(Own { threads: BTreeMap::new(), finished: (0.0, 0.0) });

fn own() -> MutexGuard<'static, Own> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that the thread which made it works for the ledger, until dropped.
pub struct Registration {
    tid: i32,
}

impl Registration {
    /// Of the calling thread; `None` without `/proc`.
    pub fn of_this_thread() -> Option<Registration> {
        let link = fs::read_link("/proc/thread-self").ok()?;
        let tid = link.file_name()?.to_str()?.parse().ok()?;
        own().threads.insert(tid, (0.0, 0.0));
        Some(Registration { tid })
    }

    /// Brings the account up to date. Called by the registered thread after each piece of work.
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

/// Whether a thread works for the ledger.
pub fn is_own(tid: i32) -> bool {
    own().threads.contains_key(&tid)
}

/// Seconds that the ledger's threads used so far, user and system.
pub fn cpu() -> (f64, f64) {
    let own = own();
    own.threads.values().fold(own.finished, |sum, used| (sum.0 + used.0, sum.1 + used.1))
}

/// User and system time in seconds.
pub fn seconds(usage: &Usage) -> (f64, f64) {
    let of = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    (of(usage.user_time()), of(usage.system_time()))
}
