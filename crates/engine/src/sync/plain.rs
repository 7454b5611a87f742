//! Outside of Loom's models nobody has to watch, and time passes.
use crate::clock::Clock;
use std::{hint, thread, time::Duration};

/// Looks before somebody gives way to others.
const SPINS: u32 = 60;
/// How long somebody gives way: twice what being woken takes.
const YIELD_MAX: Duration = Duration::from_micros(100);

/// Stands for bytes that are written before others may see them. Takes no room.
#[derive(Debug)]
pub struct Witness;

impl Witness {
    /// The bytes are being written.
    pub fn new() -> Witness {
        Witness
    }

    /// The bytes are being read.
    #[inline]
    pub fn read(&self) {}
}

/// Waits awake until it is `ready`, but not for long; gives way to others after a few looks. Whether it is. Source of the idea:
/// RocksDB's `WriteThread::AwaitState`.
pub fn spin_until(ready: impl Fn() -> bool) -> bool {
    for _ in 0..SPINS {
        if ready() {
            return true;
        }
        hint::spin_loop();
    }
    let clock = Clock::start();
    while clock.now() < YIELD_MAX {
        if ready() {
            return true;
        }
        thread::yield_now();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[test]
    fn patience_ends() {
        let (ready, clock) = (AtomicBool::new(false), Clock::start());
        assert!(!spin_until(|| ready.load(SeqCst)));
        assert!(clock.now() >= YIELD_MAX, "it gives up too soon");
        ready.store(true, SeqCst);
        assert!(spin_until(|| ready.swap(false, SeqCst)), "it looks at least once");
        assert!(!ready.load(SeqCst));
    }
}
