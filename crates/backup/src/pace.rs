//! The rate limit of a backup.
use std::{
    io::{self, Read},
    thread,
    time::{Duration, Instant},
};

/// The longest sleep, so that a caller who reports progress can do so often.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Limits the bytes per second since the start.
pub struct Pace {
    /// Bytes per second; 0 means no limit.
    rate: u64,
    started: Instant,
    bytes: u64,
}

impl Pace {
    /// Begins now, with a limit of `rate` bytes per second; 0 means no limit.
    pub fn new(rate: u64) -> Pace {
        Pace { rate, started: Instant::now(), bytes: 0 }
    }

    /// Adds `bytes`, and sleeps until they are within the limit.
    pub fn spend(&mut self, bytes: u64) {
        self.bytes += bytes;
        while let Some(early) = self.early(self.started.elapsed()) {
            thread::sleep(early.min(SLEEP_MAX));
        }
    }

    /// Returns how long to wait after `elapsed`; `None` if the bytes are within the limit.
    fn early(&self, elapsed: Duration) -> Option<Duration> {
        let due = (self.rate > 0).then(|| Duration::from_secs_f64(self.bytes as f64 / self.rate as f64))?;
        due.checked_sub(elapsed).filter(|early| !early.is_zero())
    }
}

/// Reads within the limit of a [`Pace`].
pub struct Paced<'a, R>(pub R, pub &'a mut Pace);

impl<R: Read> Read for Paced<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buf)?;
        self.1.spend(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_the_bytes_are_within_the_limit() {
        let seconds = Duration::from_secs;
        let pace = |rate, bytes| Pace { bytes, ..Pace::new(rate) };
        assert_eq!(pace(0, 1 << 40).early(seconds(0)), None);
        assert_eq!(pace(10, 40).early(seconds(1)), Some(seconds(3)));
        assert_eq!(pace(10, 40).early(seconds(4)), None);
        assert_eq!(pace(10, 40).early(seconds(9)), None);
    }
}
