//! The clock: the engine's only source of time. The engine measures and reports times, but no
//! decision about data depends on them.
use std::time::{Duration, Instant};

/// A monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Returns a clock that starts at zero.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Returns the time since the clock was started.
    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }

    /// Returns the time since `earlier`. Returns zero if the clock was set back in the meantime.
    /// This can happen when a virtual machine migrates to another host.
    pub fn since(&self, earlier: Duration) -> Duration {
        self.now().saturating_sub(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_measures_zero() {
        let clock = Clock::start();
        assert_eq!(clock.since(Duration::from_secs(1 << 40)), Duration::ZERO);
        assert!(clock.since(Duration::ZERO) <= clock.now());
    }
}
