//! A rate limiter for the bytes that the compactions of a store write. This module does no I/O.
use std::time::Duration;

/// The state of the rate limiter: the bytes that all compactions of a store have written, and the
/// time that these bytes need at the configured rate.
#[derive(Debug, Default)]
pub struct CompactionRate {
    /// The number of written bytes for which `due` already allows time.
    accounted: u64,
    /// The time at which compactions at exactly the configured rate would have written all
    /// accounted bytes.
    due: Duration,
}

impl CompactionRate {
    /// Updates the written bytes to `total`, the bytes that all compactions have written by the
    /// time `now`. Returns how long compactions must pause so that they write at most `per_second`
    /// bytes per second. A period in which compactions wrote less than this rate does not allow a
    /// higher rate later.
    pub fn wait(&mut self, total: u64, per_second: u64, now: Duration) -> Duration {
        let bytes = total.saturating_sub(self.accounted);
        self.accounted = self.accounted.max(total);
        self.due = self.due.max(now) + Duration::from_secs_f64(bytes as f64 / per_second as f64);
        self.due - now
    }

    /// Ends the pause: the `total` bytes that compactions have written by the time `now` cause no
    /// further delay.
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
