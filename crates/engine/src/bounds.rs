//! Limits on the backlog of background work at which writes stall. Pure.
//!
//! The backlog is compaction debt (obsolete versions in level 0 and above the levels' target
//! sizes) and retained bytes (obsolete files that wait until their replacement is durable).
//! Background work frees this space again. The limits are the options' values, and lower on a
//! nearly full disk: the backlog never takes all the space that would be free without it. A disk
//! that holds the live pairs and some room to work therefore does not fill up, however slow
//! background work is.
use crate::Options;

/// Limits in bytes.
#[derive(Clone, Copy, Debug)]
pub struct BacklogBounds {
    /// Retained bytes at which writers with a full memtable wait.
    pub retained_bytes: u64,
    /// Compaction debt at which writers with a full memtable wait while a compaction runs: a
    /// quarter of the space that would be free without debt and retained bytes.
    pub unmerged_bytes: u64,
    /// Whether writers are delayed before they wait (option `delayed_writes`).
    delays: bool,
}

impl BacklogBounds {
    /// Returns the limits for `free` bytes of disk space (`None` if unknown), `debt` bytes of
    /// compaction debt and `retained` bytes. Debt and retained bytes may each take a quarter of the
    /// space that would be free without them. The rest is for running compactions, which write the
    /// debt and its overlap once more.
    pub fn of(options: &Options, free: Option<u64>, debt: u64, retained: u64) -> BacklogBounds {
        let space = free.map_or(u64::MAX, |free| free.saturating_add(debt).saturating_add(retained));
        let retained_bytes = options.unsynced_bytes_limit.min(space / 4);
        BacklogBounds { retained_bytes, unmerged_bytes: space / 4, delays: options.delayed_writes }
    }

    /// Returns the number of retained bytes up to which writers are neither delayed nor stopped.
    pub fn retained_before_slowdown(&self) -> u64 {
        let most = self.retained_bytes;
        if self.delays { most - most / 4 } else { most }
    }

    /// Returns whether writers with a full memtable wait for the running compactions, whose debt is
    /// `merging_bytes`.
    pub fn stops_at_debt(&self, merging_bytes: u64) -> bool {
        merging_bytes > 0 && merging_bytes >= self.unmerged_bytes
    }

    /// Returns whether compactions should wait until fewer bytes are retained: at an eighth of the
    /// space, where pending edits are committed at once.
    pub fn delays_compactions(&self, retained_bytes: u64) -> bool {
        retained_bytes > 0 && retained_bytes >= self.unmerged_bytes / 2
    }

    /// Returns whether writers with a full memtable wait for retained files to be deleted. With no
    /// retained bytes they do not, since nothing would end the wait.
    pub fn stop_at(&self, retained_bytes: u64) -> bool {
        retained_bytes > 0 && retained_bytes >= self.retained_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backlog_is_limited_to_its_share_of_a_nearly_full_disk() {
        let mut options = Options::default();
        (options.unsynced_bytes_limit, options.delayed_writes) = (2 << 30, true);
        let of = |free, debt, retained| {
            let bounds = BacklogBounds::of(&options, free, debt, retained);
            [bounds.unmerged_bytes, bounds.retained_bytes, bounds.retained_before_slowdown()]
        };
        assert_eq!(of(None, 1, 1), [u64::MAX / 4, 2 << 30, 3 << 29]);
        assert_eq!(of(Some(1 << 40), 0, 0), [1 << 38, 2 << 30, 3 << 29]);
        assert_eq!(of(Some(100), 200, 100), [100, 100, 75]);
        assert_eq!(of(Some(0), 0, 0), [0, 0, 0]);
        assert_eq!(of(Some(u64::MAX), 1, 1), of(None, 1, 1));
        let full = BacklogBounds::of(&options, Some(0), 0, 0);
        assert_eq!([0, 1].map(|retained| full.stop_at(retained)), [false, true], "nothing to wait for");
        assert_eq!([0, 1].map(|merging| full.stops_at_debt(merging)), [false, true]);
    }
}
