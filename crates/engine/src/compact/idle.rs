//! Whether anybody writes, as far as is known. Some work costs less, or hinders nobody, if it is done while nobody does. Pure.

/// What was seen last. Guarded by the control lock.
#[derive(Debug, Default)]
pub struct IdleDetector {
    /// The newest write when a merge ended last, and whether it was the same when the one before did.
    merged: (u64, bool),
    /// The newest write, by who looks from time to time and has found it unchanged.
    rested: Option<u64>,
    /// Whether it was, too, when they looked a good while before.
    long: bool,
    /// Who waits for all work to be done.
    waiting: usize,
}

impl IdleDetector {
    /// A merge has ended when `newest` was the newest write.
    pub fn merge_ended(&mut self, newest: u64) {
        self.merged = (newest, newest == self.merged.0);
    }

    /// Who looks from time to time has found no newer write than `newest`.
    pub fn rest(&mut self, newest: u64) {
        self.rested = Some(newest);
    }

    /// Now `newest` is the newest write: the lull may be over.
    pub fn look(&mut self, newest: u64) {
        self.rested = self.rested.filter(|rested| *rested == newest);
    }

    /// Whether nothing was written for a good while, until it is told otherwise.
    pub fn rest_long(&mut self, long: bool) {
        self.long = long;
    }

    /// Somebody begins to wait until all work is done, also what would wait for a lull …
    pub fn wait(&mut self) {
        self.waiting += 1;
    }

    /// … or no longer does.
    pub fn wait_no_more(&mut self) {
        self.waiting -= 1;
    }

    /// What waits for a lull is due.
    pub fn is_resting(&self) -> bool {
        self.waiting > 0 || self.rested.is_some()
    }

    /// What waits for a long lull is due.
    pub fn is_long(&self) -> bool {
        self.waiting > 0 || self.long
    }

    /// Nobody needs the processors to write: nothing was written while the last merge ran, or it is a lull.
    pub fn is_quiet(&self) -> bool {
        self.merged.1 || self.rested.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_ends_a_lull_and_whoever_waits_makes_one() {
        let mut lull = IdleDetector::default();
        let seen = [5, 9, 9, 12].map(|newest| {
            lull.merge_ended(newest);
            lull.is_quiet()
        });
        assert_eq!(seen, [false, false, true, false]);

        lull.rest(12);
        lull.look(12);
        assert!(lull.is_resting() && lull.is_quiet());
        lull.wait();
        lull.look(13);
        assert!(lull.is_resting(), "somebody waits");
        assert!(lull.is_long() && !lull.is_quiet(), "but others may write");
        lull.wait_no_more();
        assert!(!lull.is_resting() && !lull.is_long());
        lull.rest_long(true);
        assert!(lull.is_long());
    }
}
