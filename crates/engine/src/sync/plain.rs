//! Outside of Loom's models nobody has to watch, and time passes.
use crate::clock::Clock;
use std::{thread, time::Duration};

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

/// Gives way to others until it is `ready`, but not for long. Source of the idea: RocksDB's `WriteThread::AwaitState`.
pub fn yield_until(ready: impl Fn() -> bool) {
    if ready() {
        return;
    }
    let clock = Clock::start();
    while !ready() && clock.now() < YIELD_MAX {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[test]
    fn patience_ends() {
        let (ready, clock) = (AtomicBool::new(false), Clock::start());
        yield_until(|| ready.load(SeqCst));
        assert!(clock.now() >= YIELD_MAX, "it gives up too soon");
        ready.store(true, SeqCst);
        yield_until(|| ready.swap(false, SeqCst));
        assert!(!ready.load(SeqCst), "it looks at least once");
    }
}
