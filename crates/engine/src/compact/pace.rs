//! How many threads compactions get. Pure.
//!
//! Compactions run on processors that writers and readers need too, so as long as level 0 is short they make do with few;
//! their debt costs nothing yet. They get all they may have when level 0 is half way to where writes are slowed, which
//! would hurt more, and when nobody writes.
use crate::Options;

/// Threads, of the `most` that an option grants: compactions that may run at once, or parts of one.
pub fn threads(options: &Options, most: u64, l0_runs: u64, quiet: bool) -> usize {
    let granted =
        if is_pressing(options, l0_runs) || quiet { most } else { most.min(options.base_background_compactions) };
    usize::try_from(granted).unwrap_or(usize::MAX)
}

/// Whether level 0 is half way to where writes are slowed.
pub fn is_pressing(options: &Options, l0_runs: u64) -> bool {
    l0_runs >= options.l0_pressing_runs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_threads_until_level_0_grows_or_nobody_writes() {
        let mut options = Options::leveldb_compatible(); // level 0 is due at 4 runs, slow at 8
        options.base_background_compactions = 1;
        let at = |l0_runs, quiet| threads(&options, 3, l0_runs, quiet);
        assert_eq!([at(0, false), at(5, false), at(6, false), at(0, true)], [1, 1, 3, 3]);
        assert_eq!(threads(&Options::leveldb_compatible(), 3, 0, false), 3, "LevelDB has no such bound");
    }
}
