//! The idle detector: it derives from a few observations whether the store receives writes. Some
//! background work is cheaper, or disturbs users less, while no writes arrive. This module does no
//! I/O.

/// The last observations of the idle detector. The state lock guards them.
#[derive(Debug, Default)]
pub struct IdleDetector {
    /// The newest sequence number at the end of the last compaction, and whether the newest
    /// sequence number was the same at the end of the compaction before that.
    last_compaction: (u64, bool),
    /// The newest sequence number when the idle timer found that no write had arrived since the
    /// timer's previous tick; `None` if the store is not idle.
    idle_since: Option<u64>,
    /// Whether the idle timer has seen no write for a long time.
    long_idle: bool,
    /// The number of callers that wait until all background work is done.
    waiters: usize,
}

impl IdleDetector {
    /// Records that a compaction ended while `newest` was the newest sequence number.
    pub fn compaction_ended(&mut self, newest: u64) {
        self.last_compaction = (newest, newest == self.last_compaction.0);
    }

    /// Records that the idle timer found no write newer than `newest`: the store is idle.
    pub fn set_idle(&mut self, newest: u64) {
        self.idle_since = Some(newest);
    }

    /// Compares `newest`, the newest sequence number now, with the number at which the store became
    /// idle. If they differ, a write has arrived, and the store is not idle any more.
    pub fn look(&mut self, newest: u64) {
        self.idle_since = self.idle_since.filter(|idle_since| *idle_since == newest);
    }

    /// Sets whether the store has been idle for a long time. The idle timer is the caller. The
    /// value stays until the next call.
    pub fn set_long_idle(&mut self, long_idle: bool) {
        self.long_idle = long_idle;
    }

    /// Adds a caller that waits until no background work is left. While any caller waits, work that
    /// otherwise starts only in an idle store may start at once.
    pub fn wait(&mut self) {
        self.waiters += 1;
    }

    /// Removes a caller that [`wait`](IdleDetector::wait) added.
    pub fn remove_waiter(&mut self) {
        self.waiters -= 1;
    }

    /// Returns whether work that needs an idle store may start.
    pub fn is_idle(&self) -> bool {
        self.waiters > 0 || self.idle_since.is_some()
    }

    /// Returns whether work that needs a long idle time may start.
    pub fn is_long_idle(&self) -> bool {
        self.waiters > 0 || self.long_idle
    }

    /// Returns whether compactions can use the processors without slowing writers. This is the case
    /// if no write arrived during the last compaction, or if the store is idle.
    pub fn is_quiet(&self) -> bool {
        self.last_compaction.1 || self.idle_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_ends_the_idle_state_and_a_waiter_forces_it() {
        let mut detector = IdleDetector::default();
        let seen = [5, 9, 9, 12].map(|newest| {
            detector.compaction_ended(newest);
            detector.is_quiet()
        });
        assert_eq!(seen, [false, false, true, false]);

        detector.set_idle(12);
        detector.look(12);
        assert!(detector.is_idle() && detector.is_quiet());
        detector.wait();
        detector.look(13);
        assert!(detector.is_idle(), "a caller waits");
        assert!(detector.is_long_idle() && !detector.is_quiet(), "but other threads may write");
        detector.remove_waiter();
        assert!(!detector.is_idle() && !detector.is_long_idle());
        detector.set_long_idle(true);
        assert!(detector.is_long_idle());
    }
}
