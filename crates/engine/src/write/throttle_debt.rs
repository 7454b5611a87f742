//! Throttle debt: the time that delayed writes should have slept and have not slept yet.
//! [`delay_per_byte`](super::stall::delay_per_byte) determines how much each write adds to the
//! debt, and this module determines when a write sleeps. This module does no I/O.
use std::time::Duration;

/// Debt, in seconds, at which a write sleeps. The shortest sleep takes about this long on a
/// virtual machine. With a larger value, sleeps would be rarer but longer, and these sleeps would
/// determine the p99.9 latency of delayed writes (decision 29).
const SLEEP_MIN: f64 = 16e-6;
/// Longest sleep of one write, in seconds, whatever the size of the write. Debt above this limit
/// is dropped. If a sleep takes longer than the debt, the excess is a credit, which has the same
/// limit.
const SLEEP_MAX: f64 = 50e-3;

/// The throttle debt of a store. All fields are in seconds.
#[derive(Debug, Default)]
pub struct ThrottleDebt {
    /// The throttle debt. A sleep that takes longer than the debt leaves a credit: the value is
    /// then below zero.
    debt: f64,
    /// Moving average of the time by which sleeps take longer than requested.
    oversleep: f64,
    /// The duration that was requested for the last sleep.
    requested: f64,
}

impl ThrottleDebt {
    /// Adds `seconds` to the debt, for which the next write sleeps. The debt never exceeds the
    /// longest sleep of one write.
    pub fn charge(&mut self, seconds: f64) {
        self.debt = (self.debt + seconds).min(SLEEP_MAX);
    }

    /// Adds the debt of a write. Returns how long the write must sleep, if it must. The caller
    /// reports the actual duration with [`slept`](ThrottleDebt::slept).
    pub fn charge_write(&mut self, seconds: f64) -> Option<Duration> {
        self.charge(seconds);
        if self.debt < SLEEP_MIN {
            return None;
        }
        self.requested = (self.debt - self.oversleep).max(1e-9);
        Some(Duration::from_secs_f64(self.requested))
    }

    /// Drops the debt, because writes are not delayed any more. A credit remains.
    pub fn clear(&mut self) {
        self.debt = self.debt.min(0.0);
    }

    /// Records that a write has slept for `time`.
    pub fn slept(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.debt = (self.debt - seconds).max(-SLEEP_MAX);
        // If a sleep ends very late, this shows only that no processor was free. It does not
        // predict the next sleep, so at most `SLEEP_MIN` of the excess counts in the average.
        let oversleep = (seconds - self.requested).clamp(0.0, SLEEP_MIN);
        self.oversleep += (oversleep - self.oversleep) / 8.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `writes` writes that each add `seconds` of debt. Each sleep takes `oversleep` longer
    /// than requested. Returns the number of sleeps and the sum of their durations.
    fn sleep_all(writes: usize, seconds: f64, oversleep: f64) -> (usize, f64) {
        let mut throttle_debt = ThrottleDebt::default();
        (0..writes).fold((0, 0.0), |(sleeps, sum), _| match throttle_debt.charge_write(seconds) {
            None => (sleeps, sum),
            Some(sleep) => {
                let took = sleep.as_secs_f64() + oversleep;
                throttle_debt.slept(Duration::from_secs_f64(took));
                (sleeps + 1, sum + took)
            }
        })
    }

    #[test]
    fn writers_sleep_rarely_and_in_sum_as_long_as_they_owe() {
        let cases = [
            (6e-6, 0.0, 325..=345),
            (6e-6, 3e-6, 325..=345),
            (6e-6, 15e-6, 325..=345),
            (6e-6, 40e-6, 135..=155),
            (500e-6, 15e-6, 995..=1000),
        ];
        for (seconds, oversleep, sleeps) in cases {
            let (count, sum) = sleep_all(1000, seconds, oversleep);
            assert!(sleeps.contains(&count), "{count} sleeps for {seconds} s each, {oversleep} s too long");
            assert!(
                (sum - 1000.0 * seconds).abs() <= SLEEP_MIN + oversleep,
                "{sum} s slept by writers that owe {seconds} s each"
            );
        }
    }

    /// Tests that late wake-ups shorten the sleeps requested later. The average excess starts at
    /// zero, so the first few sleeps are not shortened.
    #[test]
    fn a_late_wake_up_shortens_the_next_request() {
        let mut throttle_debt = ThrottleDebt::default();
        for sleep in 0..100 {
            let Some(requested) = throttle_debt.charge_write(20e-6) else { continue };
            throttle_debt.slept(requested + Duration::from_micros(12));
            assert!(sleep < 30 || (7..=9).contains(&requested.as_micros()), "{requested:?} in write {sleep}");
        }
    }

    #[test]
    fn debt_of_followers_is_slept_by_the_next_write() {
        let mut throttle_debt = ThrottleDebt::default();
        (0..7).for_each(|_| throttle_debt.charge(100e-6));
        assert_eq!(throttle_debt.charge_write(100e-6), Some(Duration::from_micros(800)));
        throttle_debt.charge(3.0);
        assert_eq!(throttle_debt.charge_write(0.0), Some(Duration::from_millis(50)), "never longer");
        throttle_debt.clear();
        assert_eq!(throttle_debt.charge_write(0.0), None);
    }

    #[test]
    fn neither_debt_nor_credit_exceeds_one_sleep() {
        let mut throttle_debt = ThrottleDebt::default();
        assert_eq!(throttle_debt.charge_write(3.0), Some(Duration::from_millis(50)));
        throttle_debt.slept(Duration::from_secs(3));
        assert_eq!(throttle_debt.charge_write(0.050), None);
        assert!(throttle_debt.charge_write(0.001).is_some());
    }
}
