//! The limits on the backlog of background work at which writes stall. This module does no I/O.
//!
//! The backlog has two parts. The first part is compaction debt: the bytes that compactions still
//! have to merge, because they are in level 0 or above the target sizes of the levels. They
//! contain obsolete versions. The second part is retained bytes: obsolete files that stay on the
//! disk until the files that replace them are durable. Background work frees the space of both
//! parts.
//!
//! The limits are the values of options. On a nearly full disk the limits are lower, so that the
//! backlog never takes all the space that would be free without it. Therefore a disk that has
//! space for the live pairs and for running work does not become full, even if background work is
//! slow.
use crate::Options;

/// The limits on the backlog, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct BacklogBounds {
    /// The number of retained bytes at which writers with a full memtable wait.
    pub retained_bytes: u64,
    /// The compaction debt, in bytes, at which writers with a full memtable wait while a compaction
    /// runs. It is a quarter of the space that would be free without debt and retained bytes.
    pub unmerged_bytes: u64,
    /// Whether writers are delayed before they wait (option `delayed_writes`).
    delays: bool,
}

impl BacklogBounds {
    /// Returns the limits for the present amounts in bytes. `free` is free disk space (`None` if
    /// unknown), `debt` is compaction debt, and `retained` is the size of retained files.
    /// Compaction debt and retained files may each take a quarter of the space that would be free
    /// without them. The rest is for running compactions, which write the debt and the tables that
    /// it overlaps once more.
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

    /// Returns whether writers with a full memtable wait for the running compactions.
    /// `merging_bytes` is the compaction debt that these compactions remove.
    pub fn stops_at_debt(&self, merging_bytes: u64) -> bool {
        merging_bytes > 0 && merging_bytes >= self.unmerged_bytes
    }

    /// Returns whether compactions should wait until fewer bytes are retained. They wait if
    /// retained files take an eighth of the space. Pending edits are then committed immediately, so
    /// that these files can be deleted.
    pub fn delays_compactions(&self, retained_bytes: u64) -> bool {
        retained_bytes > 0 && retained_bytes >= self.unmerged_bytes / 2
    }

    /// Returns whether writers with a full memtable wait for the deletion of retained files. If no
    /// file is retained, they do not wait, because nothing would end the wait.
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
