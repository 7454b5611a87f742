//! The time that writers owe background work, as [`pace`](super::stall::pace) has it, and when they sleep for it. Pure.
use std::time::Duration;

/// Smaller debts add up first: what the shortest sleep takes on a virtual machine. Larger ones would be what one write in a thousand takes
/// where writers are slowed at all.
const SLEEP_MIN: f64 = 16e-6;
/// One write sleeps no longer than this, however large it is; the rest is forgiven. As much can be had in advance by waking up late.
const SLEEP_MAX: f64 = 50e-3;

/// All in seconds.
#[derive(Debug, Default)]
pub struct ThrottleDebt {
    /// Below zero where somebody has slept too long.
    debt: f64,
    /// How much longer a sleep takes than it was asked for, lately.
    oversleep: f64,
    /// For how long the last one was asked.
    requested: f64,
}

impl ThrottleDebt {
    /// So much more is owed, to be slept by whoever writes next, who sleeps no longer than one write does.
    pub fn charge(&mut self, seconds: f64) {
        self.debt = (self.debt + seconds).min(SLEEP_MAX);
    }

    /// A write owes so much more. Returns for how long it must ask to sleep, if it must; then say how long it [did](ThrottleDebt::paid).
    pub fn charge_write(&mut self, seconds: f64) -> Option<Duration> {
        self.charge(seconds);
        if self.debt < SLEEP_MIN {
            return None;
        }
        self.requested = (self.debt - self.oversleep).max(1e-9);
        Some(Duration::from_secs_f64(self.requested))
    }

    /// There is no reason left to sleep.
    pub fn clear(&mut self) {
        self.debt = self.debt.min(0.0);
    }

    /// A write has slept.
    pub fn slept(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.debt = (self.debt - seconds).max(-SLEEP_MAX);
        let oversleep = (seconds - self.requested).clamp(0.0, SLEEP_MIN); // one that found no processor says nothing of the others
        self.oversleep += (oversleep - self.oversleep) / 8.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `writes`, each owing so many seconds, sleep if each sleep takes `late` longer: the naps and their sum.
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
    fn many_sleep_a_little_and_as_much_in_all_as_they_owe() {
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
                "{sum} s slept by those who owe {seconds} each"
            );
        }
    }

    /// The first few naps are asked for in full.
    #[test]
    fn who_wakes_up_late_asks_for_less() {
        let mut throttle_debt = ThrottleDebt::default();
        for sleep in 0..100 {
            let Some(requested) = throttle_debt.charge_write(20e-6) else { continue };
            throttle_debt.slept(requested + Duration::from_micros(12));
            assert!(sleep < 30 || (7..=9).contains(&requested.as_micros()), "{requested:?} in write {sleep}");
        }
    }

    #[test]
    fn what_others_owe_is_slept_with_the_next_write() {
        let mut throttle_debt = ThrottleDebt::default();
        (0..7).for_each(|_| throttle_debt.charge(100e-6));
        assert_eq!(throttle_debt.charge_write(100e-6), Some(Duration::from_micros(800)));
        throttle_debt.charge(3.0);
        assert_eq!(throttle_debt.charge_write(0.0), Some(Duration::from_millis(50)), "never longer");
        throttle_debt.clear();
        assert_eq!(throttle_debt.charge_write(0.0), None);
    }

    #[test]
    fn neither_a_debt_nor_what_was_had_in_advance_lasts() {
        let mut throttle_debt = ThrottleDebt::default();
        assert_eq!(throttle_debt.charge_write(3.0), Some(Duration::from_millis(50)));
        throttle_debt.slept(Duration::from_secs(3));
        assert_eq!(throttle_debt.charge_write(0.050), None);
        assert!(throttle_debt.charge_write(0.001).is_some());
    }
}
