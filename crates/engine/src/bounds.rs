//! How far background work may be behind before writers are held up: as far as the options say, and less where the disk is nearly
//! full. Pure.
//!
//! Old versions in level 0 and above their levels' sizes, and what waits for its replacement to be durable, are space that background
//! work gives back. A store that never lets it take all that would be free without it fills no disk that holds its pairs and has some
//! room to work, however slow background work is.
use crate::Options;

/// Bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Retained bytes at which writers with a full memtable wait.
    pub retained_bytes: u64,
    /// A quarter of what would be free if nothing were unmerged or retained: unmerged bytes at which writers with a full memtable wait,
    /// while something is merged.
    pub unmerged_bytes: u64,
    /// Whether writers are slowed before they wait.
    smooth: bool,
}

impl Bounds {
    /// With so many bytes `free`, as far as anybody knows, and so many unmerged and retained. Without all of the latter, more would be
    /// free: either may take a quarter of that. The rest is for merges at work, which write what is unmerged once more, and what it meets.
    pub fn of(options: &Options, free: Option<u64>, unmerged: u64, retained: u64) -> Bounds {
        let space = free.map_or(u64::MAX, |free| free.saturating_add(unmerged).saturating_add(retained));
        let retained_bytes = options.unsynced_bytes_limit.min(space / 4);
        Bounds { retained_bytes, unmerged_bytes: space / 4, smooth: options.delayed_writes }
    }

    /// Bytes that may be retained before writers are held up by it, one way or the other.
    pub fn retained_unhindered(&self) -> u64 {
        let most = self.retained_bytes;
        if self.smooth { most - most / 4 } else { most }
    }

    /// Whether writers with a full memtable wait for the merges at work, where so much is unmerged.
    pub fn stop_at_unmerged(&self, merging_bytes: u64) -> bool {
        merging_bytes > 0 && merging_bytes >= self.unmerged_bytes
    }

    /// Whether so much is retained that a merge had better wait until it is not: an eighth of the space, at which a release commits at once.
    pub fn crowds_merges(&self, retained_bytes: u64) -> bool {
        retained_bytes > 0 && retained_bytes >= self.unmerged_bytes / 2
    }

    /// Whether writers with a full memtable wait for what is retained. If nothing is, there is nothing to wait for.
    pub fn stop_at(&self, retained_bytes: u64) -> bool {
        retained_bytes > 0 && retained_bytes >= self.retained_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_takes_no_more_than_its_share_of_a_disk_that_is_nearly_full() {
        let mut options = Options::default();
        (options.unsynced_bytes_limit, options.delayed_writes) = (2 << 30, true);
        let of = |free, debt, retained| {
            let bounds = Bounds::of(&options, free, debt, retained);
            [bounds.unmerged_bytes, bounds.retained_bytes, bounds.retained_unhindered()]
        };
        assert_eq!(of(None, 1, 1), [u64::MAX / 4, 2 << 30, 3 << 29]);
        assert_eq!(of(Some(1 << 40), 0, 0), [1 << 38, 2 << 30, 3 << 29]);
        assert_eq!(of(Some(100), 200, 100), [100, 100, 75]);
        assert_eq!(of(Some(0), 0, 0), [0, 0, 0]);
        assert_eq!(of(Some(u64::MAX), 1, 1), of(None, 1, 1));
        let full = Bounds::of(&options, Some(0), 0, 0);
        assert_eq!([0, 1].map(|retained| full.stop_at(retained)), [false, true], "nothing to wait for");
        assert_eq!([0, 1].map(|merging| full.stop_at_unmerged(merging)), [false, true]);
    }
}
