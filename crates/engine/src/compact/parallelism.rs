//! The number of threads that compactions may use. This module does no I/O.
//!
//! Compactions compete with readers and writers for processors. While level 0 has few runs,
//! pending compactions do not slow writers yet, so compactions may use only few threads.
//! Compactions may use all configured threads in two cases. In the first case, the number of
//! level-0 runs is at least half way from the compaction trigger to the slowdown trigger: a write
//! stall is near and would cost more than the threads. In the second case, the store is idle.
use crate::Options;

/// Returns the number of threads that compactions may use now. `max_threads` is the configured
/// maximum, either of concurrent compactions or of the subcompactions of one compaction.
pub fn threads(options: &Options, max_threads: u64, l0_runs: u64, idle: bool) -> usize {
    let granted = if is_pressing(options, l0_runs) || idle {
        max_threads
    } else {
        max_threads.min(options.base_background_compactions)
    };
    usize::try_from(granted).unwrap_or(usize::MAX)
}

/// Returns whether a write stall is near: the number of runs in level 0 is at least half way from
/// its compaction trigger to the slowdown trigger.
pub fn is_pressing(options: &Options, l0_runs: u64) -> bool {
    l0_runs >= options.l0_pressing_runs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_threads_until_level_0_grows_or_the_store_is_idle() {
        // In this test a compaction of level 0 is due at 4 runs, and writes are slowed at 8 runs.
        let mut options = Options::leveldb_compatible();
        options.base_background_compactions = 1;
        let at = |l0_runs, idle| threads(&options, 3, l0_runs, idle);
        assert_eq!([at(0, false), at(5, false), at(6, false), at(0, true)], [1, 1, 3, 3]);
        assert_eq!(threads(&Options::leveldb_compatible(), 3, 0, false), 3, "LevelDB does not limit threads");
    }
}
