//! The synchronisation primitives for all builds other than Loom's model checks. In these builds
//! the type `Witness` does nothing, and a spin really waits.
use crate::clock::Clock;
use std::{hint, thread, time::Duration};

/// The number of checks after which the spinning thread starts to yield.
const SPINS: u32 = 60;
/// The maximum time for which a spinning thread yields the processor. The time is twice the cost
/// of a wake-up.
const YIELD_MAX: Duration = Duration::from_micros(100);

/// Represents bytes that one thread writes before it makes them visible to other threads. Only
/// Loom's model checks verify the order of the accesses, so the type takes no space in other
/// builds.
#[derive(Debug)]
pub struct Witness;

impl Witness {
    /// Marks the bytes as being written. Has an effect only in Loom's model checks.
    pub fn new() -> Witness {
        Witness
    }

    /// Marks the bytes as being read. Has an effect only in Loom's model checks.
    #[inline]
    pub fn read(&self) {}
}

/// Spins until `ready` returns true, but only for a short time. After a few checks the thread
/// yields the processor between checks. Returns whether `ready` has returned true. Source of the
/// idea: RocksDB's `WriteThread::AwaitState`.
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
    fn spinning_ends_after_its_bound() {
        let (ready, clock) = (AtomicBool::new(false), Clock::start());
        assert!(!spin_until(|| ready.load(SeqCst)));
        assert!(clock.now() >= YIELD_MAX, "it returns too early");
        ready.store(true, SeqCst);
        assert!(spin_until(|| ready.swap(false, SeqCst)), "it checks at least once");
        assert!(!ready.load(SeqCst));
    }
}
