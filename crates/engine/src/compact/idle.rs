//! The idle detector: whether the store receives writes, as far as is known. Some work is
//! cheaper, or disturbs less, while no writes arrive. Pure.

/// The last observations. Guarded by the state lock.
#[derive(Debug, Default)]
pub struct IdleDetector {
    /// The newest sequence number when the last compaction ended, and whether the compaction before
    /// it ended at the same one.
    last_compaction: (u64, bool),
    /// The newest sequence number at which the idle timer found no new write since its previous
    /// tick.
    idle_since: Option<u64>,
    /// Whether the idle timer has seen no write for a long time.
    long_idle: bool,
    /// Callers that wait until all work is done.
    waiters: usize,
}

impl IdleDetector {
    /// Notes that a compaction ended while `newest` was the newest sequence number.
    pub fn compaction_ended(&mut self, newest: u64) {
        self.last_compaction = (newest, newest == self.last_compaction.0);
    }

    /// Notes that the idle timer found no write newer than `newest`: the store is idle.
    pub fn set_idle(&mut self, newest: u64) {
        self.idle_since = Some(newest);
    }

    /// Notes that `newest` is the newest sequence number. A write ends the idle state.
    pub fn look(&mut self, newest: u64) {
        self.idle_since = self.idle_since.filter(|idle_since| *idle_since == newest);
    }

    /// Sets whether the store has been idle for a long time, until the next call.
    pub fn set_long_idle(&mut self, long_idle: bool) {
        self.long_idle = long_idle;
    }

    /// Adds a caller that waits until all work is done, including work that otherwise waits for an
    /// idle store.
    pub fn wait(&mut self) {
        self.waiters += 1;
    }

    /// Removes a caller added by [`wait`](IdleDetector::wait).
    pub fn remove_waiter(&mut self) {
        self.waiters -= 1;
    }

    /// Whether work that waits for an idle store is due.
    pub fn is_idle(&self) -> bool {
        self.waiters > 0 || self.idle_since.is_some()
    }

    /// Whether work that waits for a long idle time is due.
    pub fn is_long_idle(&self) -> bool {
        self.waiters > 0 || self.long_idle
    }

    /// Whether writers leave the processors free: no write arrived during the last compaction, or
    /// the store is idle.
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
