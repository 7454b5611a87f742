//! How fast compactions have written, and may. Pure.
use std::time::Duration;

/// What the compactions of a store have written, all of them together.
#[derive(Debug, Default)]
pub struct Rate {
    /// Bytes that were accounted for.
    seen: u64,
    /// When they would all have been written at the rate that is allowed.
    due: Duration,
}

impl Rate {
    /// `total` bytes have been written by `now`, and `per_second` of them are allowed. Returns for how long nobody may go on. Time in
    /// which less was written than might have been is not made up for.
    pub fn wait(&mut self, total: u64, per_second: u64, now: Duration) -> Duration {
        let bytes = total.saturating_sub(self.seen);
        self.seen = self.seen.max(total);
        self.due = self.due.max(now) + Duration::from_secs_f64(bytes as f64 / per_second as f64);
        self.due - now
    }

    /// Nobody waits for what was written until now.
    pub fn forgive(&mut self, total: u64, now: Duration) {
        (self.seen, self.due) = (self.seen.max(total), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_waited_for_once_and_no_time_is_saved_up() {
        let (mut rate, seconds) = (Rate::default(), Duration::from_secs);
        assert_eq!(rate.wait(500, 100, seconds(10)), seconds(5));
        assert_eq!(rate.wait(500, 100, seconds(12)), seconds(3), "another thread, or the same again");
        assert_eq!(rate.wait(700, 100, seconds(12)), seconds(5));
        assert_eq!(rate.wait(700, 100, seconds(30)), seconds(0));
        assert_eq!(rate.wait(800, 100, seconds(40)), seconds(1), "23 idle seconds grant nothing");
        rate.forgive(5000, seconds(41));
        assert_eq!(rate.wait(5100, 100, seconds(41)), seconds(1));
    }
}
