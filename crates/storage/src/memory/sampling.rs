//! Selects a random sample of the reads, for measurements that would cost too much for every read.
use std::cell::Cell;

/// One read in this number is a sample.
pub const SAMPLE_EVERY: u32 = 64;

/// The multiplier of the generator: that of PCG with 32 bits.
const MULTIPLIER: u32 = 747_796_405;

/// Returns whether this read is a sample. The choice is random, so that the reads of a program that
/// repeats a pattern, and those of short-lived threads, are sampled alike.
#[inline]
pub fn is_sample() -> bool {
    thread_local!(static STATE: Cell<u32> = const { Cell::new(0) });
    STATE.with(|state| {
        // A linear congruential generator, whose high bits are its best. The increment must be odd.
        // It is the address of the state, so each thread has a sequence of its own.
        let increment = state.as_ptr() as usize as u32 | 1;
        let next = state.get().wrapping_mul(MULTIPLIER).wrapping_add(increment);
        state.set(next);
        next < u32::MAX / SAMPLE_EVERY
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn one_read_in_sixty_four_is_a_sample_in_every_thread() {
        for thread in 0..20 {
            let samples = thread::spawn(|| (0..64_000).filter(|_| is_sample()).count()).join().unwrap();
            assert!((800..1200).contains(&samples), "{samples} samples of 64,000 reads in thread {thread}");
        }
    }
}
