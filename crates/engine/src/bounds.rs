//! The limits on the backlog of background work at which writes stall. This module does no I/O.
//!
//! The backlog has two parts. The first part is compaction debt: the bytes in level 0, and the
//! bytes above the target sizes of the deeper levels. Compactions still have to merge these bytes,
//! which contain obsolete versions of keys. The second part is retained bytes: the bytes of
//! obsolete files that stay on the disk until the files that replace them are durable. Background
//! work frees the space of both parts.
//!
//! The limits are the values of options. On a nearly full disk the limits are lower: each part may
//! take only a share of the space that would be free without the backlog. Therefore a disk that
//! has space for the live pairs and for running compactions does not become full, even if
//! background work is slow.
use crate::Options;

/// The limits on the backlog, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct BacklogBounds {
    /// The number of retained bytes (bytes of obsolete files that cannot be deleted yet) at which
    /// writers with a full memtable wait.
    pub retained_bytes: u64,
    /// The compaction debt, in bytes, at which writers with a full memtable wait while a compaction
    /// runs. It is a quarter of the disk space that would be free without compaction debt and
    /// retained files.
    pub unmerged_bytes: u64,
    /// Whether writers are delayed before they wait (option `delayed_writes`).
    delays: bool,
}

impl BacklogBounds {
    /// Returns the limits for the present amounts in bytes. `free` is the free disk space (`None`
    /// if unknown), `debt` is the compaction debt, and `retained` is the size of the retained
    /// files: obsolete files that cannot be deleted yet. Compaction debt and retained files may
    /// each take a quarter of the space that would be free without them. The other half is left for
    /// running compactions, which write the debt again, together with the tables that it overlaps.
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

    /// Returns whether compactions should wait because `retained_bytes`, the bytes of obsolete
    /// files that cannot be deleted yet, take an eighth of the disk space that would be free
    /// without the backlog. These files are retained until the version edits that replace them are
    /// in the manifest. While compactions wait, pending edits are committed immediately.
    pub fn delays_compactions(&self, retained_bytes: u64) -> bool {
        retained_bytes > 0 && retained_bytes >= self.unmerged_bytes / 2
    }

    /// Returns whether writers with a full memtable wait for the deletion of retained files
    /// (obsolete files that cannot be deleted yet). If no file is retained, the writers do not
    /// wait, because no deletion would end the wait.
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
