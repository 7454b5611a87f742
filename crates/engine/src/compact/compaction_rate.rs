//! A rate limiter for the writes of a store's compactions. Pure.
use std::time::Duration;

/// Bytes written by all compactions of a store, and the debt they left at the configured rate.
#[derive(Debug, Default)]
pub struct CompactionRate {
    /// Bytes already accounted for.
    accounted: u64,
    /// The time at which all accounted bytes would have been written at the configured rate.
    due: Duration,
}

impl CompactionRate {
    /// Accounts for `total` bytes written by time `now` and returns how long compactions must pause
    /// to keep to `per_second` bytes per second. Unused rate is not saved up.
    pub fn wait(&mut self, total: u64, per_second: u64, now: Duration) -> Duration {
        let bytes = total.saturating_sub(self.accounted);
        self.accounted = self.accounted.max(total);
        self.due = self.due.max(now) + Duration::from_secs_f64(bytes as f64 / per_second as f64);
        self.due - now
    }

    /// Drops the debt for everything written so far.
    pub fn forgive(&mut self, total: u64, now: Duration) {
        (self.accounted, self.due) = (self.accounted.max(total), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_charged_once_and_unused_rate_is_not_saved_up() {
        let (mut rate, seconds) = (CompactionRate::default(), Duration::from_secs);
        assert_eq!(rate.wait(500, 100, seconds(10)), seconds(5));
        assert_eq!(rate.wait(500, 100, seconds(12)), seconds(3), "another thread, or a second call");
        assert_eq!(rate.wait(700, 100, seconds(12)), seconds(5));
        assert_eq!(rate.wait(700, 100, seconds(30)), seconds(0));
        assert_eq!(rate.wait(800, 100, seconds(40)), seconds(1), "23 idle seconds add no credit");
        rate.forgive(5000, seconds(41));
        assert_eq!(rate.wait(5100, 100, seconds(41)), seconds(1));
    }
}
