//! What the kernel charges to this process: bytes, processor time, and the time of each thread.
use super::own;
use nix::sys::resource::{UsageWho, getrusage};
use std::{collections::BTreeMap, fs};
pub use terrace_device::process::{identity, is_alive};

/// `/proc/self/io`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Io {
    /// Handed to `write` calls of any kind, pipes and terminals too.
    pub wchar: u64,
    /// Fetched from storage.
    pub read_bytes: u64,
    /// Dirtied, to be written to storage.
    pub write_bytes: u64,
    /// Dirtied, then truncated or deleted before they were written.
    pub cancelled_write_bytes: u64,
}

/// Processor time in seconds, without the ledger's own threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// In the process.
    pub user: f64,
    /// In the kernel for it.
    pub system: f64,
}

/// The byte counters of this process; `None` if the kernel does not keep them.
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

/// Processor time of this process so far.
pub fn cpu() -> Cpu {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage of the caller has no way to fail");
    let ((user, system), (own_user, own_system)) = (own::seconds(&usage), own::cpu());
    Cpu { user: user - own_user, system: system - own_system }
}

/// Nanoseconds on a processor by thread, without the ledger's own; `None` if the kernel does not tell.
///
/// From `schedstat`, which is exact where `stat` counts in hundredths of a second.
pub fn threads_ns() -> Option<BTreeMap<i32, u64>> {
    let mut threads = BTreeMap::new();
    for tid in thread_ids()? {
        // A thread that ended since the listing used nothing that a later sample could show.
        let Ok(text) = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")) else { continue };
        if !own::is_own(tid) {
            threads.insert(tid, text.split_whitespace().next()?.parse().ok()?);
        }
    }
    (!threads.is_empty()).then_some(threads)
}

/// The threads of this process.
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
    fn identities_tell_the_living_from_the_dead() {
        let me = identity(std::process::id()).expect("this process exists");
        assert!(is_alive(&me));
        assert!(!is_alive(&format!("{me}0")), "another start time is another process");
        assert!(!is_alive("nonsense"));
    }

    #[test]
    fn a_busy_thread_is_seen_and_a_thread_of_the_ledger_is_not() {
        let spin = || {
            let until = std::time::Instant::now() + std::time::Duration::from_millis(60);
            while std::time::Instant::now() < until {}
        };
        let tid = || {
            let link = fs::read_link("/proc/thread-self").expect("/proc");
            link.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok()).expect("a number")
        };
        let used = |tid| threads_ns().expect("schedstat").get(&tid).copied();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let before = used(tid()).expect("an engine's thread");
                spin();
                assert!(used(tid()) > Some(before + 5_000_000), "it was on a processor");
                let registration = own::Registration::of_this_thread().expect("/proc");
                assert_eq!(used(tid()), None);
                drop(registration);
            });
        });
    }
}
