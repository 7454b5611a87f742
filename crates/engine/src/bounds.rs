//! How far background work may be behind before writers are held up: as far as the options say, and less where the disk is nearly
//! full. Pure.
//!
//! Old versions above their levels' sizes, and what waits for its replacement to be durable, are space that background work gives
//! back. A store that never lets it take all that would be free without it fills no disk that holds its pairs and has some room to work.
use crate::Options;

/// Bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Retained bytes at which writers with a full memtable wait.
    pub retained_bytes: u64,
    /// Bytes above their levels' limits at which writers are slowed most; 0 for no bound.
    pub debt_bytes: u64,
    /// Whether writers are slowed before they wait.
    smooth: bool,
}

impl Bounds {
    /// With so many bytes `free`, as far as anybody knows, and so many of debt and retained. Without all of the latter, more would be
    /// free: of that debt may take half, what is retained a quarter; the rest is for merges at work.
    pub fn of(options: &Options, free: Option<u64>, debt: u64, retained: u64) -> Bounds {
        let slack = free.map_or(u64::MAX, |free| free.saturating_add(debt).saturating_add(retained));
        let debt_bytes = options.debt_bytes_max.min((slack / 2).max(1)); // 0 is no bound
        let retained_bytes = options.retained_bytes_max.min(slack / 4);
        Bounds { retained_bytes, debt_bytes, smooth: options.smooth_stalls }
    }

    /// Bytes that may be retained before writers are held up by it, one way or the other.
    pub fn retained_unhindered(&self) -> u64 {
        let most = self.retained_bytes;
        if self.smooth { most - most / 4 } else { most }
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
        (options.debt_bytes_max, options.retained_bytes_max, options.smooth_stalls) = (8 << 30, 2 << 30, true);
        let of = |free, debt, retained| {
            let bounds = Bounds::of(&options, free, debt, retained);
            [bounds.debt_bytes, bounds.retained_bytes, bounds.retained_unhindered()]
        };
        assert_eq!(of(None, 1, 1), [8 << 30, 2 << 30, 3 << 29]);
        assert_eq!(of(Some(1 << 40), 0, 0), [8 << 30, 2 << 30, 3 << 29]);
        assert_eq!(of(Some(100), 200, 100), [200, 100, 75]);
        assert_eq!(of(Some(0), 0, 0), [1, 0, 0]);
        assert_eq!(of(Some(u64::MAX), 1, 1), [8 << 30, 2 << 30, 3 << 29]);
        let full = Bounds::of(&options, Some(0), 0, 0);
        assert_eq!([0, 1].map(|retained| full.stop_at(retained)), [false, true], "nothing to wait for");
        options.debt_bytes_max = 0;
        assert_eq!(Bounds::of(&options, Some(100), 0, 0).debt_bytes, 0, "no bound");
    }
}
