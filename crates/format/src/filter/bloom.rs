//! LevelDB's Bloom filter. The bits are the same as LevelDB's.
use super::{FilterPolicy, HashPolicy};
use std::sync::Arc;

/// Maximum number of probes. A filter that states a larger number has an encoding that is reserved
/// for the future, and matches every key.
const PROBES_MAX: u8 = 30;

/// A Bloom filter with about `0.69 * bits_per_key` probes. With 10 bits per key, 1 % of absent
/// keys match.
#[derive(Clone, Copy, Debug)]
pub struct Bloom {
    bits_per_key: u32,
    probes: u8,
}

impl Bloom {
    /// Returns a policy with `bits_per_key` bits per key.
    pub fn new(bits_per_key: u32) -> Bloom {
        let probes = (f64::from(bits_per_key) * 0.69) as u32; // rounded down; ln 2 would be optimal
        Bloom { bits_per_key, probes: probes.clamp(1, PROBES_MAX.into()) as u8 }
    }
}

impl FilterPolicy for Bloom {
    fn name(&self) -> &str {
        "leveldb.BuiltinBloomFilter2"
    }

    fn create(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
        self.fill(keys.len(), keys.iter().map(|key| hash(key)), out);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        match filter {
            [bits @ .., count] if !bits.is_empty() => {
                *count > PROBES_MAX
                    || probes(hash(key), bits.len() as u64 * 8, *count)
                        .all(|bit| bits[(bit / 8) as usize] & (1 << (bit % 8)) != 0)
            }
            _ => false,
        }
    }

    fn by_hash(self: Arc<Self>) -> Option<Arc<dyn HashPolicy>> {
        Some(self)
    }
}

impl HashPolicy for Bloom {
    fn hash(&self, key: &[u8]) -> u32 {
        hash(key)
    }

    fn create_of(&self, hashes: &[u32], out: &mut Vec<u8>) {
        self.fill(hashes.len(), hashes.iter().copied(), out);
    }
}

impl Bloom {
    /// Appends the filter of `count` keys with the given hashes.
    fn fill(&self, count: usize, hashes: impl Iterator<Item = u32>, out: &mut Vec<u8>) {
        // A very small filter would match too many absent keys.
        let bits = (count as u64 * u64::from(self.bits_per_key)).max(64);
        let bytes = bits.div_ceil(8) as usize;
        let start = out.len();
        out.reserve(bytes + 1);
        out.resize(start + bytes, 0);
        let (filter, bits) = (&mut out[start..], bytes as u64 * 8);
        for hash in hashes {
            for bit in probes(hash, bits, self.probes) {
                filter[(bit / 8) as usize] |= 1 << (bit % 8);
            }
        }
        out.push(self.probes);
    }
}

/// Returns the positions, below `bits`, of the bits that a key with the hash `hash` sets. The
/// function uses double hashing, with the rotated hash as the step.
fn probes(mut hash: u32, bits: u64, count: u8) -> impl Iterator<Item = u64> {
    let step = hash.rotate_right(17);
    let narrow = u32::try_from(bits).ok(); // a 32-bit division is several times as fast
    (0..count).map(move |_| {
        let bit = narrow.map_or_else(|| u64::from(hash) % bits, |bits| u64::from(hash % bits));
        hash = hash.wrapping_add(step);
        bit
    })
}

/// LevelDB's Murmur-like hash with the seed of its Bloom filters.
fn hash(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0xbc9f_1d34;
    const MULTIPLIER: u32 = 0xc6a4_a793;
    let mut hash = SEED ^ (bytes.len() as u32).wrapping_mul(MULTIPLIER);
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_add(u32::from_le_bytes(*word)).wrapping_mul(MULTIPLIER);
        hash ^= hash >> 16;
    }
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash = hash.wrapping_add(u32::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
        hash ^= hash >> 24;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_leveldbs() {
        let mut out = Vec::new();
        Bloom::new(10).create(&[b"hello", b"world"], &mut out);
        assert_eq!(out.len(), 9);
        assert_eq!(out[8], 6);
        let bloom = Bloom::new(10);
        assert!(bloom.may_match(b"hello", &out) && bloom.may_match(b"world", &out));
        assert!(!bloom.may_match(b"x", &out) && !bloom.may_match(b"foo", &out));
    }

    #[test]
    fn matches_its_keys_and_few_others() {
        let keys: Vec<[u8; 4]> = (0..10_000_u32).map(u32::to_le_bytes).collect();
        let borrowed: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let (bloom, mut filter) = (Bloom::new(10), Vec::new());
        bloom.create(&borrowed, &mut filter);
        assert_eq!(filter.len(), 12_501);
        assert!(borrowed.iter().all(|key| bloom.may_match(key, &filter)));
        let wrong = (0..10_000_u32).filter(|i| bloom.may_match(&(i + 1_000_000_000).to_le_bytes(), &filter)).count();
        assert!(wrong < 200, "{wrong} of 10000");
    }

    #[test]
    fn probes_are_bounded_and_odd_filters_decided() {
        let probes = |bits| Bloom::new(bits).probes;
        assert_eq!([0, 1, 10, 43, 44, 1000].map(probes), [1, 1, 6, 29, 30, 30]);
        let bloom = Bloom::new(10);
        assert!(!bloom.may_match(b"k", b""));
        assert!(!bloom.may_match(b"k", b"\x06"));
        assert!(bloom.may_match(b"k", b"\0\x1f"));
        assert!(!bloom.may_match(b"k", b"\0\x1e"));
    }
}
