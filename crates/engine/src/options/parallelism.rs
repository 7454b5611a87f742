//! Numbers of threads that follow from `parallelism`.
use super::Options;
use std::{num::NonZero, thread};

/// The largest numbers that follow from `parallelism`. More concurrent compactions would mostly
/// wait for each other's key ranges.
const COMPACTIONS_MAX: u64 = 8;
const SUBCOMPACTIONS_MAX: u64 = 4;

impl Options {
    /// Replaces the numbers of threads that are 0.
    pub(super) fn resolve_threads(&mut self) {
        let processors = || thread::available_parallelism().map_or(1, NonZero::get) as u64;
        let threads = if self.parallelism == 0 { processors() } else { self.parallelism };
        let or = |set: u64, derived: u64| if set == 0 { derived } else { set };
        self.max_background_compactions = or(self.max_background_compactions, threads.min(COMPACTIONS_MAX));
        self.base_background_compactions =
            or(self.base_background_compactions, (threads / 2).clamp(1, COMPACTIONS_MAX));
        self.max_subcompactions = or(self.max_subcompactions, threads.min(SUBCOMPACTIONS_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_follow_from_parallelism() {
        for (parallelism, numbers) in [(1, (1, 1, 1)), (2, (2, 1, 2)), (4, (4, 2, 4)), (64, (8, 8, 4))] {
            let options = Options { parallelism, ..Options::default() }.resolved();
            let threads =
                (options.max_background_compactions, options.base_background_compactions, options.max_subcompactions);
            assert_eq!(threads, numbers);
        }
        let set = Options { parallelism: 8, max_background_compactions: 3, ..Options::default() }.resolved();
        assert_eq!((set.max_background_compactions, set.max_subcompactions), (3, 4));
        assert!(Options::default().resolved().max_background_compactions > 0, "of this machine");
        let leveldb = Options { parallelism: 8, ..Options::leveldb_compatible() }.resolved();
        assert_eq!((leveldb.max_background_compactions, leveldb.max_subcompactions), (1, 1));
    }
}
