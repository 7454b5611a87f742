//! Decides whether lookups read mapped tables through their mappings.
//!
//! A read through a mapping is fastest if its pages are in memory. If they are not, the kernel
//! reads each page of a block by itself, so a block of two pages waits twice for the device; a
//! system call waits once. The store therefore measures how often the pages of a block are missing.
//! While they are missing too often, lookups use system calls and the block cache. A measurement is
//! itself a system call, `mincore`, so only a sample of the reads is measured.
use super::sampling::is_sample;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The estimate of the share of reads whose pages are missing, as a multiple of 1 / [`ONE`].
const ONE: u32 = 1 << 24;
/// Each sample moves the estimate by 1/256 of its distance from the sample. One missing read thus
/// adds less than the distance between the two limits.
const WEIGHT: u32 = 256;
/// Above this share of missing reads, lookups use system calls: 2 %.
const STOP_ABOVE: u32 = ONE / 50;
/// Below this share, lookups use mappings again: 1 %.
const START_BELOW: u32 = ONE / 100;
/// The bit of the state that is set while lookups use system calls.
const CALLS: u32 = 1 << 31;

/// The estimate of one store. The threads of the store update it without a lock: a lost update
/// only makes it slightly older.
#[derive(Default)]
pub(crate) struct Residency(AtomicU32);

impl Residency {
    /// Returns whether lookups use mappings at present.
    pub fn uses_mappings(&self) -> bool {
        self.0.load(Relaxed) & CALLS == 0
    }

    /// Returns whether a lookup should read through a mapping. `is_resident` returns whether the
    /// pages of this read are in memory; only some calls of this function call it.
    #[inline]
    pub fn allows(&self, is_resident: impl FnOnce() -> bool) -> bool {
        let state = self.0.load(Relaxed);
        if !is_sample() {
            return state & CALLS == 0;
        }
        let next = next(state, is_resident());
        self.0.store(next, Relaxed);
        next & CALLS == 0
    }
}

/// Returns the state after a sample.
fn next(state: u32, is_resident: bool) -> u32 {
    let (share, sample) = (state & !CALLS, if is_resident { 0 } else { ONE });
    let share = share - share.div_ceil(WEIGHT) + sample / WEIGHT;
    let calls = if state & CALLS != 0 { share >= START_BELOW } else { share > STOP_ABOVE };
    if calls { share | CALLS } else { share }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(mut state: u32, samples: u32, missing_every: u32) -> u32 {
        for sample in 1..=samples {
            state = next(state, !sample.is_multiple_of(missing_every));
        }
        state
    }

    #[test]
    fn missing_pages_switch_to_system_calls_and_back() {
        assert_eq!(after(0, 10_000, u32::MAX), 0, "all pages are in memory");
        assert_eq!(after(0, 10_000, 67) & CALLS, 0, "1.5 % of the reads miss");
        assert!(after(0, 10_000, 33) & CALLS != 0, "3 % of the reads miss");
        let cold = after(0, 100, 2);
        assert!(cold & CALLS != 0, "half of the reads miss");
        assert!(cold & !CALLS <= ONE);
        assert!(after(cold, 100, u32::MAX) & CALLS != 0, "a few resident pages do not switch back");
        assert_eq!(after(cold, 4000, u32::MAX), 0);
        assert_eq!(after(0, 10_000, 1) & !CALLS, after(0, 5000, 1) & !CALLS, "the estimate is bounded");
    }

    #[test]
    fn some_reads_are_samples() {
        let residency = Residency::default();
        let mut samples = 0;
        for _ in 0..6400 {
            residency.allows(|| {
                samples += 1;
                true
            });
        }
        assert!((50..200).contains(&samples), "{samples} samples of 6400 reads");
    }
}
