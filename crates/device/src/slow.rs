//! A device that delays requests, so that they take as long as on a drive of a given speed.
use crate::{BlockDevice, Descriptor, Result, Stream};
use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Tolerance of the simulated speed. The device sleeps only when it is ahead of the given speed by
/// more than this time, because a sleep for a single page would be too short to be accurate. A
/// device that is late may catch up by at most this time.
const AHEAD_MAX: Duration = Duration::from_micros(200);

/// The speed of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Additional duration of each flush.
    pub flush: Duration,
    /// Maximum bytes read or written per second; unlimited if `None`.
    pub bytes_per_s: Option<u64>,
}

/// A wrapper of another device that serves requests one at a time, at a given pace.
pub struct Slow {
    below: Arc<dyn BlockDevice>,
    pace: Pace,
    /// The time at which all transfers requested so far will be complete.
    done: Mutex<Instant>,
}

impl Slow {
    /// Wraps `below`.
    pub fn new(below: Arc<dyn BlockDevice>, pace: Pace) -> Slow {
        Slow { below, pace, done: Mutex::new(Instant::now()) }
    }

    /// Schedules a transfer of `bytes` bytes after all earlier transfers, runs `moved`, and sleeps
    /// until the scheduled end.
    fn moving<T>(&self, bytes: usize, moved: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(bytes_per_s) = self.pace.bytes_per_s else { return moved() };
        let takes = Duration::from_secs_f64(bytes as f64 / bytes_per_s.max(1) as f64);
        let done = {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            *done = done.max(now.checked_sub(AHEAD_MAX).unwrap_or(now)) + takes;
            *done
        };
        let moved = moved();
        let left = done.saturating_duration_since(Instant::now());
        if left > AHEAD_MAX {
            thread::sleep(left);
        }
        moved
    }

    /// Waits until all transfers are complete, and then for the duration of a flush.
    fn flushing<T>(&self, flushed: impl FnOnce() -> Result<T>) -> Result<T> {
        let done = *self.done.lock().unwrap_or_else(PoisonError::into_inner);
        thread::sleep(done.saturating_duration_since(Instant::now()) + self.pace.flush);
        flushed()
    }
}

impl BlockDevice for Slow {
    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.below.block_bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.moving(into.len(), || self.below.read_at(offset, into))
    }

    fn read_part(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.moving(into.len(), || self.below.read_part(offset, into))
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        self.moving(bytes.len(), || self.below.write_at(offset, bytes, stream))
    }

    fn flush(&self) -> Result<()> {
        self.flushing(|| self.below.flush())
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        self.flushing(|| self.below.flush_ranges(ranges))
    }

    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        self.below.forget_cached(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.below.discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.below.write_zeroes(offset, len)
    }

    /// Returns no backing file, because access to the file would bypass the simulated speed.
    fn backing(&self) -> Option<Descriptor<'_>> {
        if self.pace.bytes_per_s.is_some() { None } else { self.below.backing() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn only_flushes_are_delayed() {
        let pace = Pace { flush: Duration::from_millis(50), bytes_per_s: None };
        let slow = Slow::new(Arc::new(Memory::new(1 << 20).expect("memory")), pace);
        let start = Instant::now();
        let mut read = [0; 4096];
        slow.write_at(4096, &[7; 4096], Stream::default()).expect("written");
        slow.read_at(4096, &mut read).expect("read");
        assert_eq!((read, slow.len_bytes(), slow.block_bytes()), ([7; 4096], 1 << 20, 4096));
        assert!(start.elapsed() < Duration::from_millis(50));
        slow.flush().expect("flushed");
        assert!(start.elapsed() >= Duration::from_millis(50));
    }

    #[test]
    fn transfers_are_paced_one_after_the_other() {
        let pace = Pace { flush: Duration::ZERO, bytes_per_s: Some(10 << 20) };
        let slow = Slow::new(Arc::new(crate::File::in_memory(1 << 20).expect("memory")), pace);
        let start = Instant::now();
        thread::scope(|scope| {
            for half in [0, 512 << 10] {
                let slow = &slow;
                scope.spawn(move || slow.write_at(half, &vec![7; 512 << 10], Stream::default()).expect("written"));
            }
        });
        assert!(start.elapsed() >= Duration::from_millis(99), "{:?} for a MiB", start.elapsed());
        assert!(slow.backing().is_none());
    }
}
