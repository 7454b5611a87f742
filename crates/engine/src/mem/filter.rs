//! A Bloom filter of a memtable's keys. Point lookups read the filter while writers add keys.
//! Without the filter, a lookup of an absent key in a large memtable visits about a dozen nodes of
//! the skip list that are in no processor cache.
//!
//! All bits of a key are in one word of the filter, so a lookup needs only one load, and an insert
//! only one atomic operation.
use super::arena::zeroed_words;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use terrace_storage::Held;

/// The number of bits that are set for each key. With the smallest key-value pairs, about eight
/// keys share a word of the filter, and the filter passes fewer than one absent key in 25. With
/// pairs of 100 B the filter passes one absent key in 250.
const BITS: u32 = 4;

/// A filter for keys in the bytewise order. In this order equal keys have equal bytes, so they
/// have equal hashes.
pub struct KeyFilter {
    words: Box<[AtomicU64]>,
    _held: Held,
}

impl KeyFilter {
    /// Makes an empty filter of `bytes` bytes. `held` reports them to the memory budget.
    pub fn new(bytes: u64, mut held: Held) -> KeyFilter {
        let words = bytes.div_ceil(8);
        held.set(words * 8);
        KeyFilter { words: zeroed_words(words as usize), _held: held }
    }

    /// Adds a key. If a reader may see the write of this key, the reader also finds the key in the
    /// filter: the writer makes the sequence number of the write visible by a `Release` store after
    /// this call.
    pub fn add(&self, user: &[u8]) {
        let (word, bits) = self.locate(user);
        word.fetch_or(bits, Relaxed);
    }

    /// Returns whether `user` may have been added. The result false is certain: `user` was not
    /// added.
    pub fn may_hold(&self, user: &[u8]) -> bool {
        let (word, bits) = self.locate(user);
        word.load(Relaxed) & bits == bits
    }

    fn locate(&self, user: &[u8]) -> (&AtomicU64, u64) {
        let hash = hash(user);
        let bits = (0..BITS).fold(0, |bits, nth| bits | (1 << ((hash >> (6 * nth)) & 63)));
        (&self.words[(((hash >> 32) * self.words.len() as u64) >> 32) as usize], bits)
    }
}

/// Returns a multiplicative hash of `user`, computed from eight bytes at a time. An adversary can
/// choose keys for which the filter is useless; reads are then as slow as without the filter.
fn hash(user: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| {
        // The multiplier is 2^64 divided by the golden ratio, made odd.
        let product = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        product ^ (product >> 32)
    };
    let (words, rest) = user.as_chunks();
    let last = rest.iter().fold(user.len() as u64, |word, byte| (word << 8) | u64::from(*byte));
    mix(words.iter().fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word))), last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_storage::{Budget, Holder, StorageConfig};

    #[test]
    fn holds_every_added_key_and_few_others() {
        let budget = Budget::new(&StorageConfig::default());
        let key = |n: u32| format!("{n:016}").into_bytes();
        for (keys, bytes, worst) in
            [(60_000, 1 << 20, 10), (400_000, 1 << 20, 400), (1_000_000, 1 << 20, 4_000), (8, 1, 100_000)]
        {
            let filter = KeyFilter::new(bytes, budget.hold(Holder::Memtables));
            (0..keys).for_each(|n| filter.add(&key(2 * n)));
            assert!((0..keys).all(|n| filter.may_hold(&key(2 * n))), "{keys} keys in {bytes} B");
            let wrong = (0..100_000).filter(|n| filter.may_hold(&key(2 * n + 1))).count();
            assert!(wrong <= worst, "{wrong} of 100,000 absent keys pass {bytes} B with {keys}");
            assert_eq!(budget.held().0.iter().sum::<u64>(), bytes.next_multiple_of(8), "counted in the budget");
        }
        assert_eq!(budget.held().0.iter().sum::<u64>(), 0, "given back");
    }
}
