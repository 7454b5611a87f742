//! Kernel counters of this process: bytes, processor time, and the time of each thread.
use super::own_threads;
use nix::sys::resource::{UsageWho, getrusage};
use std::{collections::BTreeMap, fs};
pub use terrace_device::process::{identity, is_alive};

/// The counters in `/proc/self/io`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Io {
    /// Bytes passed to `write` and similar calls, including writes to pipes and terminals.
    pub wchar: u64,
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// Bytes dirtied in the page cache, which the kernel writes to storage later.
    pub write_bytes: u64,
    /// Bytes dirtied and then truncated or deleted before the kernel wrote them.
    pub cancelled_write_bytes: u64,
}

/// Processor time in seconds, without the time of the ledger's own threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// Seconds in user mode.
    pub user: f64,
    /// Seconds in kernel mode.
    pub system: f64,
}

/// Returns the byte counters of this process; `None` if the kernel does not have them.
pub fn io() -> Option<Io> {
    parse_io(&fs::read_to_string("/proc/self/io").ok()?)
}

fn parse_io(text: &str) -> Option<Io> {
    let field = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
        line.split(':').nth(1)?.trim().parse().ok()
    };
    Some(Io {
        wchar: field("wchar")?,
        read_bytes: field("read_bytes")?,
        write_bytes: field("write_bytes")?,
        cancelled_write_bytes: field("cancelled_write_bytes")?,
    })
}

/// Returns the processor time of this process.
pub fn cpu() -> Cpu {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage of the caller has no way to fail");
    let ((user, system), (own_user, own_system)) = (own_threads::seconds(&usage), own_threads::cpu());
    Cpu { user: user - own_user, system: system - own_system }
}

/// Returns the time that each thread has run on a processor, in ns, without the ledger's own
/// threads. Returns `None` if the kernel does not report it.
///
/// The time is read from `schedstat`, which is exact. The kernel's `stat` files count in units of
/// 1/100 s.
pub fn threads_ns() -> Option<BTreeMap<i32, u64>> {
    let mut threads = BTreeMap::new();
    for tid in thread_ids()? {
        // A thread that ended after the threads were listed is omitted, because later samples do
        // not contain it either.
        let Ok(text) = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")) else { continue };
        if !own_threads::is_own(tid) {
            threads.insert(tid, text.split_whitespace().next()?.parse().ok()?);
        }
    }
    (!threads.is_empty()).then_some(threads)
}

/// A thread's name and its time on a processor in ns.
pub type NamedThread = (String, u64);

/// Returns the times of [`threads_ns`] with the name of each thread.
pub fn threads_named() -> Option<BTreeMap<i32, NamedThread>> {
    let name = |tid: i32| fs::read_to_string(format!("/proc/self/task/{tid}/comm")).unwrap_or_default();
    Some(threads_ns()?.into_iter().map(|(tid, ns)| (tid, (name(tid).trim_end().to_owned(), ns))).collect())
}

/// Returns the processor time between two moments in seconds, by thread name. Threads that have
/// ended are not included.
pub fn by_name(before: &BTreeMap<i32, NamedThread>, after: &BTreeMap<i32, NamedThread>) -> BTreeMap<String, f64> {
    let mut seconds = BTreeMap::new();
    for (tid, (name, ns)) in after {
        let then = before.get(tid).map_or(0, |(_, ns)| *ns);
        *seconds.entry(name.clone()).or_default() += ns.saturating_sub(then) as f64 / 1e9;
    }
    seconds
}

/// Returns the threads of this process.
pub fn thread_ids() -> Option<Vec<i32>> {
    let entries = fs::read_dir("/proc/self/task").ok()?;
    entries.map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_read_field_by_field() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n";
        let io = Io { wchar: 2, read_bytes: 5, write_bytes: 6, cancelled_write_bytes: 7 };
        assert_eq!(parse_io(text), Some(io));
        assert_eq!(parse_io("rchar: 1\n"), None);
    }

    #[test]
    fn thread_time_is_reported_by_name() {
        let at = |ns: [u64; 2]| [(7, ("flush".to_owned(), ns[0])), (8, ("flush".to_owned(), ns[1]))].into();
        let mut after: BTreeMap<i32, NamedThread> = at([4_000_000_000, 500_000_000]);
        after.insert(9, ("new".into(), 1_000_000_000));
        let seconds = by_name(&at([1_000_000_000, 0]), &after);
        assert_eq!(seconds, [("flush".to_owned(), 3.5), ("new".to_owned(), 1.0)].into());
    }

    #[test]
    fn identities_distinguish_running_and_ended_processes() {
        let me = identity(std::process::id()).expect("this process exists");
        assert!(is_alive(&me));
        assert!(!is_alive(&format!("{me}0")), "another start time is another process");
        assert!(!is_alive("nonsense"));
    }

    #[test]
    fn a_busy_thread_is_seen_and_a_thread_of_the_ledger_is_not() {
        let tid = || {
            let link = fs::read_link("/proc/thread-self").expect("/proc");
            link.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok()).expect("a number")
        };
        let used = |tid| threads_ns().expect("schedstat").get(&tid).copied();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let before = used(tid()).expect("an engine's thread");
                let begin = std::time::Instant::now();
                while used(tid()) <= Some(before + 5_000_000) {
                    assert!(begin.elapsed().as_secs() < 60, "its processor time is not counted");
                }
                let registration = own_threads::Registration::of_this_thread().expect("/proc");
                assert_eq!(used(tid()), None);
                drop(registration);
            });
        });
    }
}
