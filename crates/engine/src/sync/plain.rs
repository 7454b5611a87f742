//! Outside of Loom's models nobody has to watch, and time passes.
use crate::clock::Clock;
use std::{thread, time::Duration};

/// How long somebody gives way: about as long as falling asleep and being woken take.
const YIELD_MAX: Duration = Duration::from_micros(100);
/// A yield that takes longer has let others run.
const YIELD_SLOW: Duration = Duration::from_micros(3);
/// After so many of these, processors are wanted elsewhere.
const SLOW_YIELDS_MAX: u32 = 3;

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
    let clock = Clock::start();
    let (mut last, mut slow) = (Duration::ZERO, 0);
    while !ready() && last < YIELD_MAX && slow < SLOW_YIELDS_MAX {
        thread::yield_now();
        let now = clock.now();
        slow += u32::from(now - last > YIELD_SLOW);
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn patience_ends_when_it_is_ready_or_takes_too_long() {
        let looks = Cell::new(0);
        let look = |ready_at| {
            looks.set(looks.get() + 1);
            looks.get() == ready_at
        };
        yield_until(|| look(1));
        assert_eq!(looks.replace(0), 1);
        yield_until(|| look(0));
        assert!(looks.get() > 1, "it gives way at least once");
    }
}
