//! The engine's only source of time. It measures; no decision about data rests on it.
use std::time::{Duration, Instant};

/// A monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at zero.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }

    /// Time since the clock said `earlier`; none where it has been set back since, as virtual machines that move may do.
    pub fn since(&self, earlier: Duration) -> Duration {
        self.now().saturating_sub(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_measures_nothing() {
        let clock = Clock::start();
        assert_eq!(clock.since(Duration::from_secs(1 << 40)), Duration::ZERO);
        assert!(clock.since(Duration::ZERO) <= clock.now());
    }
}
