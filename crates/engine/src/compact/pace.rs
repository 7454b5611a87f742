//! How many threads compactions get. Pure.
//!
//! Compactions run on processors that writers and readers need too, so as long as level 0 is short they make do with few;
//! their debt costs nothing yet. They get all they may have when level 0 is half way to where writes are slowed, which
//! would hurt more, and when nobody writes.
use crate::Options;

/// Threads, of the `most` that an option grants: compactions that may run at once, or parts of one.
pub fn threads(options: &Options, most: u64, l0_runs: u64, quiet: bool) -> usize {
    let pressing = l0_runs >= options.l0_compact_runs.midpoint(options.l0_slow_runs);
    let granted = if pressing || quiet { most } else { most.min(options.compactions_calm) };
    usize::try_from(granted).unwrap_or(usize::MAX)
}

/// Whether anybody writes, as far as is known.
#[derive(Debug, Default)]
pub struct Lull {
    last_sequence: u64,
    quiet: bool,
    resting: bool,
}

impl Lull {
    /// A merge has ended when `last_sequence` was the newest write.
    pub fn merge_ended(&mut self, last_sequence: u64) {
        self.quiet = last_sequence == self.last_sequence;
        self.last_sequence = last_sequence;
    }

    /// Who looks from time to time has seen no write since, or some.
    pub fn rest(&mut self, resting: bool) {
        self.resting = resting;
    }

    /// Nothing was written while the last merge ran, or since somebody looked.
    pub fn is_quiet(&self) -> bool {
        self.quiet || self.resting
    }

    /// Nothing was written since somebody looked: what can wait for that is due.
    pub fn is_resting(&self) -> bool {
        self.resting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_threads_until_level_0_grows_or_nobody_writes() {
        let mut options = Options::default(); // level 0 is due at 4 runs, slow at 8
        options.compactions_calm = 1;
        let at = |l0_runs, quiet| threads(&options, 3, l0_runs, quiet);
        assert_eq!([at(0, false), at(5, false), at(6, false), at(0, true)], [1, 1, 3, 3]);
        assert_eq!(threads(&Options::default(), 3, 0, false), 3, "by default there is no such bound");

        let mut lull = Lull::default();
        let seen = [5, 9, 9, 12].map(|last| {
            lull.merge_ended(last);
            lull.is_quiet()
        });
        assert_eq!(seen, [false, false, true, false]);
        lull.rest(true);
        assert!(lull.is_quiet() && lull.is_resting());
    }
}
