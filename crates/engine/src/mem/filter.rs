//! Which keys a memtable may have: a Bloom filter that is read while it is filled. A search in a large memtable meets a dozen
//! nodes that no cache has, for a key that mostly is not there.
//!
//! All bits of a key are in one word, so asking costs one load and adding one atomic operation.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use terrace_format::crc::crc32c;
use terrace_storage::Held;

/// Bits set for each key. Of absent keys fewer than one in twenty-five passes with a word for eight keys, which is what the smallest
/// pairs make; with pairs of 100 B one in two hundred and fifty.
const BITS: u32 = 4;

/// A filter for keys of the bytewise order, in which equal keys have equal bytes.
pub struct KeyFilter {
    words: Box<[AtomicU64]>,
    _held: Held,
}

impl KeyFilter {
    /// An empty filter of `bytes`, rounded to a power of two.
    pub fn new(bytes: u64, mut held: Held) -> KeyFilter {
        let words = (bytes / 8).max(1).next_power_of_two();
        held.set(words * 8);
        KeyFilter { words: (0..words).map(|_| AtomicU64::new(0)).collect(), _held: held }
    }

    /// Adds a key. Whoever sees an entry of it, sees this: its caller publishes both.
    pub fn add(&self, user: &[u8]) {
        let (word, bits) = self.place(user);
        word.fetch_or(bits, Relaxed);
    }

    /// Whether `user` may have been added. If it was, then yes.
    pub fn may_hold(&self, user: &[u8]) -> bool {
        let (word, bits) = self.place(user);
        word.load(Relaxed) & bits == bits
    }

    fn place(&self, user: &[u8]) -> (&AtomicU64, u64) {
        // The odd number spreads the 32 bits of the checksum, which is one or two instructions a word of the key, over 64.
        let hash = u64::from(crc32c(user)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bits = (0..BITS).fold(0, |bits, nth| bits | 1 << (hash >> (6 * nth + 8) & 63));
        (&self.words[(hash >> 32) as usize & (self.words.len() - 1)], bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_storage::{Budget, Holder, Setup};

    #[test]
    fn holds_what_was_added_and_little_else() {
        let budget = Budget::new(&Setup::default());
        let key = |n: u32| format!("{n:016}").into_bytes();
        for (keys, bytes, worst) in
            [(60_000, 1 << 20, 10), (400_000, 1 << 20, 400), (1_000_000, 1 << 20, 4_000), (8, 1, 100_000)]
        {
            let filter = KeyFilter::new(bytes, budget.hold(Holder::Memtables));
            (0..keys).for_each(|n| filter.add(&key(2 * n)));
            assert!((0..keys).all(|n| filter.may_hold(&key(2 * n))), "{keys} keys in {bytes} B");
            let wrong = (0..100_000).filter(|n| filter.may_hold(&key(2 * n + 1))).count();
            assert!(wrong <= worst, "{wrong} of 100,000 absent keys pass {bytes} B with {keys}");
            assert_eq!(budget.held().0.iter().sum::<u64>(), bytes.next_multiple_of(8), "told to the budget");
        }
        assert_eq!(budget.held().0.iter().sum::<u64>(), 0, "given back");
    }
}
