//! Sizes that follow from `memory_budget`.
use super::Options;

/// The smallest `memory_budget`.
pub(super) const BUDGET_MIN: u64 = 8 << 20;
/// The smallest size of a memtable.
pub(super) const WRITE_BUFFER_MIN: u64 = 64 << 10;
/// The largest size of a memtable that follows from the budget. Larger memtables would make a
/// recovery slower, but save few compactions.
const WRITE_BUFFER_MAX: u64 = 64 << 20;
/// The sizes that follow if there is no budget.
const WRITE_BUFFER_UNLIMITED: u64 = 32 << 20;
const BLOCK_CACHE_UNLIMITED: u64 = 64 << 20;

impl Options {
    /// Returns the options as an open uses them: a `write_buffer_size` and numbers of threads of 0
    /// are replaced, and `memory_budget` is raised if sizes that are set need more.
    ///
    /// ```
    /// # use terrace::Options;
    /// let mut options = Options::default();
    /// assert_eq!(options.resolved().write_buffer_size, 16 << 20); // four take half of 128 MiB
    /// options.block_cache_size = 1 << 30;
    /// assert!(options.resolved().memory_budget > 1 << 30);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[must_use]
    pub fn resolved(&self) -> Options {
        let mut options = self.clone();
        options.resolve_threads();
        if options.write_buffer_size == 0 {
            options.write_buffer_size = match self.memory_budget {
                0 => WRITE_BUFFER_UNLIMITED,
                budget => (budget / 2 / self.max_write_buffer_number.max(1)).clamp(WRITE_BUFFER_MIN, WRITE_BUFFER_MAX),
            };
        }
        if options.memory_budget > 0 {
            let set = options.memtables_bytes_max().saturating_add(self.block_cache_size);
            // An eighth of the budget is left for uncounted memory, and an eighth for indexes.
            options.memory_budget = self.memory_budget.max((set / 3).saturating_mul(4));
        }
        options
    }

    /// Returns the capacity of the block cache, before it leaves memory to other parts. A cache
    /// that follows from the budget is not larger because memtables have raised the budget.
    pub(super) fn block_cache_bytes(&self) -> u64 {
        match (self.block_cache_size, self.memory_budget) {
            (0, 0) => BLOCK_CACHE_UNLIMITED,
            (0, budget) => budget,
            (size, _) => size,
        }
    }

    /// Returns an upper bound of the memory of all memtables. Small entries take up to a quarter
    /// more memory than `write_buffer_size` counts, and a write may exceed the size.
    fn memtables_bytes_max(&self) -> u64 {
        let memtables = self.max_write_buffer_number.saturating_mul(self.write_buffer_size);
        (1_u64 << 20).saturating_add((memtables / 4).saturating_mul(5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns the resolved write buffer size and budget, and the capacity of the block cache.
    fn sizes(settings: &[(&str, &str)]) -> (u64, u64, u64) {
        let mut options = Options::default();
        for (name, value) in settings {
            options.set(name, value).unwrap();
        }
        options.validate().unwrap();
        let resolved = options.resolved();
        assert_eq!(resolved.resolved().to_text(), resolved.to_text());
        (resolved.write_buffer_size, resolved.memory_budget >> 20, options.block_cache_bytes())
    }

    #[test]
    fn sizes_follow_from_the_budget() {
        assert_eq!(sizes(&[]), (16 * MIB, 128, 128 * MIB));
        assert_eq!(sizes(&[("memory_budget", "8MiB")]), (MIB, 8, 8 * MIB));
        assert_eq!(sizes(&[("memory_budget", "4GiB")]), (64 * MIB, 4096, 4096 * MIB));
        assert_eq!(sizes(&[("memory_budget", "128MiB"), ("max_write_buffer_number", "2")]).0, 32 * MIB);
        assert_eq!(sizes(&[("memory_budget", "0")]), (32 * MIB, 0, 64 * MIB));
    }

    #[test]
    fn sizes_that_are_set_raise_the_budget() {
        assert_eq!(sizes(&[("block_cache_size", "1MiB")]), (16 * MIB, 128, MIB));
        assert_eq!(sizes(&[("block_cache_size", "1GiB")]), (16 * MIB, 1473, 1024 * MIB));
        assert_eq!(sizes(&[("write_buffer_size", "64MiB")]), (64 * MIB, 428, 128 * MIB));
    }

    #[test]
    fn small_sizes_are_refused() {
        for (name, value, error) in [
            ("memory_budget", "7MiB", "memory_budget is 7340032; it must be 0 or at least 8388608"),
            ("write_buffer_size", "1", "write_buffer_size is 1; it must be 0 or at least 65536"),
        ] {
            let mut options = Options::default();
            options.set(name, value).unwrap();
            assert_eq!(options.validate().unwrap_err().to_string(), error);
        }
    }
}
