//! The time that writers owe background work, as [`pace`](super::stall::pace) has it, and when they sleep for it. Pure.
use std::time::Duration;

/// What a sleep takes at least, and longer than it was asked for, on a virtual machine. Where it takes less, there are more and shorter ones:
/// all of it counts as paid.
const LATE: f64 = 15e-6;
/// Smaller debts add up first. Larger ones would be what one write in a thousand takes where writers are slowed at all.
const NAP_MIN: f64 = LATE + 1e-6;
/// One write sleeps no longer than this, however large it is; the rest is forgiven. As much can be had in advance by waking up late.
const NAP_MAX: f64 = 50e-3;

/// Seconds. Below zero where somebody has slept too long.
#[derive(Debug, Default)]
pub struct Owed(f64);

impl Owed {
    /// A write owes so much more. Returns for how long it must ask to sleep, if it must; then say how long it [did](Owed::paid).
    pub fn add(&mut self, seconds: f64) -> Option<Duration> {
        self.0 = (self.0 + seconds).min(NAP_MAX);
        (self.0 >= NAP_MIN).then(|| Duration::from_secs_f64(self.0 - LATE))
    }

    /// A write has slept.
    pub fn paid(&mut self, time: Duration) {
        self.0 = (self.0 - time.as_secs_f64()).max(-NAP_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `writes`, each owing so many seconds, sleep if each sleep takes `late` longer: the naps and their sum.
    fn slept(writes: usize, seconds: f64, late: f64) -> (usize, f64) {
        let mut owed = Owed::default();
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
        for (seconds, late, naps) in
            [(6e-6, 3e-6, 500..=1000), (6e-6, 15e-6, 300..=376), (6e-6, 35e-6, 150..=172), (500e-6, 15e-6, 1000..=1000)]
        {
            let (count, sum) = slept(1000, seconds, late);
            assert!(naps.contains(&count), "{count} naps for {seconds} s each, {late} s late");
            assert!((sum - 1000.0 * seconds).abs() <= NAP_MIN + late, "{sum} s");
        }
    }

    #[test]
    fn neither_a_debt_nor_what_was_had_in_advance_lasts() {
        let mut owed = Owed::default();
        assert_eq!(owed.add(3.0), Some(Duration::from_micros(50_000 - 15)));
        owed.paid(Duration::from_secs(3));
        assert_eq!(owed.add(0.050), None);
        assert!(owed.add(0.001).is_some());
    }
}
