//! The time that writers owe background work, as [`pace`](super::stall::pace) has it, and when they sleep for it. Pure.
use std::time::Duration;

/// Smaller debts add up first: what the shortest sleep takes on a virtual machine. Larger ones would be what one write in a thousand takes
/// where writers are slowed at all.
const NAP_MIN: f64 = 16e-6;
/// One write sleeps no longer than this, however large it is; the rest is forgiven. As much can be had in advance by waking up late.
const NAP_MAX: f64 = 50e-3;

/// All in seconds.
#[derive(Debug, Default)]
pub struct ThrottleDebt {
    /// Below zero where somebody has slept too long.
    debt: f64,
    /// How much longer a sleep takes than it was asked for, lately.
    late: f64,
    /// For how long the last one was asked.
    asked: f64,
}

impl ThrottleDebt {
    /// So much more is owed, to be slept by whoever writes next, who sleeps no longer than one write does.
    pub fn owe(&mut self, seconds: f64) {
        self.debt = (self.debt + seconds).min(NAP_MAX);
    }

    /// A write owes so much more. Returns for how long it must ask to sleep, if it must; then say how long it [did](ThrottleDebt::paid).
    pub fn add(&mut self, seconds: f64) -> Option<Duration> {
        self.owe(seconds);
        if self.debt < NAP_MIN {
            return None;
        }
        self.asked = (self.debt - self.late).max(1e-9);
        Some(Duration::from_secs_f64(self.asked))
    }

    /// There is no reason left to sleep.
    pub fn forgive(&mut self) {
        self.debt = self.debt.min(0.0);
    }

    /// A write has slept.
    pub fn paid(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.debt = (self.debt - seconds).max(-NAP_MAX);
        let late = (seconds - self.asked).clamp(0.0, NAP_MIN); // one that found no processor says nothing of the others
        self.late += (late - self.late) / 8.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `writes`, each owing so many seconds, sleep if each sleep takes `late` longer: the naps and their sum.
    fn slept(writes: usize, seconds: f64, late: f64) -> (usize, f64) {
        let mut owed = ThrottleDebt::default();
        (0..writes).fold((0, 0.0), |(naps, sum), _| match owed.add(seconds) {
            None => (naps, sum),
            Some(nap) => {
                let took = nap.as_secs_f64() + late;
                owed.paid(Duration::from_secs_f64(took));
                (naps + 1, sum + took)
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
        for (seconds, late, naps) in cases {
            let (count, sum) = slept(1000, seconds, late);
            assert!(naps.contains(&count), "{count} naps for {seconds} s each, {late} s late");
            assert!((sum - 1000.0 * seconds).abs() <= NAP_MIN + late, "{sum} s slept by those who owe {seconds} each");
        }
    }

    /// The first few naps are asked for in full.
    #[test]
    fn who_wakes_up_late_asks_for_less() {
        let mut owed = ThrottleDebt::default();
        for nap in 0..100 {
            let Some(asked) = owed.add(20e-6) else { continue };
            owed.paid(asked + Duration::from_micros(12));
            assert!(nap < 30 || (7..=9).contains(&asked.as_micros()), "{asked:?} in write {nap}");
        }
    }

    #[test]
    fn what_others_owe_is_slept_with_the_next_write() {
        let mut owed = ThrottleDebt::default();
        (0..7).for_each(|_| owed.owe(100e-6));
        assert_eq!(owed.add(100e-6), Some(Duration::from_micros(800)));
        owed.owe(3.0);
        assert_eq!(owed.add(0.0), Some(Duration::from_millis(50)), "never longer");
        owed.forgive();
        assert_eq!(owed.add(0.0), None);
    }

    #[test]
    fn neither_a_debt_nor_what_was_had_in_advance_lasts() {
        let mut owed = ThrottleDebt::default();
        assert_eq!(owed.add(3.0), Some(Duration::from_millis(50)));
        owed.paid(Duration::from_secs(3));
        assert_eq!(owed.add(0.050), None);
        assert!(owed.add(0.001).is_some());
    }
}
