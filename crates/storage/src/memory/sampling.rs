//! Selects a random sample of the reads, for measurements that would cost too much for every read.
use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// One read in this number is a sample.
pub const SAMPLE_EVERY: u32 = 64;

/// Returns whether this read is a sample. The choice is random, so that the reads of a program that
/// repeats a pattern, and those of short-lived threads, are sampled alike.
#[inline]
pub fn is_sample() -> bool {
    thread_local!(static STATE: Cell<u32> = const { Cell::new(0) });
    STATE.with(|state| {
        let mut bits = state.get();
        if bits == 0 {
            bits = seed();
        }
        // Marsaglia's xorshift generator with 32 bits.
        bits ^= bits << 13;
        bits ^= bits >> 17;
        bits ^= bits << 5;
        state.set(bits);
        bits.is_multiple_of(SAMPLE_EVERY)
    })
}

/// Returns a number above 0 that differs between threads.
#[cold]
fn seed() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    THREADS.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9) | 1
}
