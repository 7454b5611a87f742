//! A sorted array of internal keys with a fast lower-bound search. It is used for index blocks in
//! memory.
//!
//! Keys are stored contiguously. In the bytewise order, all user keys except the last have a
//! common prefix that is not compared, and the next eight bytes of each key are stored as an
//! integer. A search first compares integers in one contiguous array, and rarely has to read a
//! key. A second array has every sixteenth integer. It stays in the CPU caches and selects the
//! group of integers to search. The common prefix does not include the last key, because an index
//! block ends with a short key above all other keys, which has no prefix in common with them.
use crate::{KeyOrder, block::common_prefix, key};
use std::{cmp::Ordering, ops::Range};

/// Number of integers in a group, so that a group has the size of two cache lines. The second
/// array has the last integer of each group.
const STRETCH: usize = 16;

/// A sorted array of internal keys, see the module documentation. The keys never change.
#[derive(Debug)]
pub struct Fences {
    keys: Vec<u8>,
    /// End offset of each key in `keys`.
    ends: Vec<usize>,
    /// Length of the common prefix of all user keys except the last; 0 in a custom order.
    common: usize,
    /// For each key except the last, the eight bytes after the common prefix as a big-endian
    /// integer. Empty in a custom order.
    prefixes: Vec<u64>,
    /// The last integer of each group.
    stretches: Vec<u64>,
}

impl Fences {
    /// Builds the array from the concatenated `keys` and their end offsets `ends`. Each key must be
    /// at least as long as a trailer. If the keys are not sorted, searches may miss keys, but they
    /// do not panic.
    pub fn new(order: &KeyOrder, keys: Vec<u8>, ends: Vec<usize>) -> Fences {
        let mut fences = Fences { keys, ends, common: 0, prefixes: Vec::new(), stretches: Vec::new() };
        let marked = fences.len().saturating_sub(1);
        if let (KeyOrder::Bytewise, 1..) = (order, marked) {
            let user = |i| key::user_key(fences.key(i));
            let common = (1..marked).fold(user(0).len(), |common, i| common_prefix(&user(0)[..common], user(i)));
            fences.prefixes = (0..marked).map(|i| prefix(&user(i)[common..])).collect();
            fences.stretches = fences.prefixes.chunks(STRETCH).map(|stretch| stretch[stretch.len() - 1]).collect();
            fences.common = common;
        }
        fences
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the key at `index`, which must be below [`Fences::len`].
    pub fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.keys[start..self.ends[index]]
    }

    /// Returns the memory used, in bytes.
    pub fn byte_len(&self) -> usize {
        self.keys.capacity() + 8 * (self.ends.capacity() + self.prefixes.capacity() + self.stretches.capacity())
    }

    /// Returns the index of the first key at or after the internal key `target`, or the number of
    /// keys if there is none.
    pub fn first_at_or_after(&self, order: &KeyOrder, target: &[u8]) -> usize {
        let Range { start: mut low, end: mut high } = self.undecided(key::user_key(target));
        while low < high {
            let middle = low + (high - low) / 2;
            if order.internal(self.key(middle), target).is_lt() { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the range of keys whose comparison with `user` is not decided by their integers.
    /// Keys before the range are smaller than `user`, and keys after it are not.
    fn undecided(&self, user: &[u8]) -> Range<usize> {
        if self.prefixes.is_empty() {
            return 0..self.len();
        }
        let known = user.len().min(self.common);
        match user[..known].cmp(&self.keys[..known]) {
            Ordering::Less => 0..0,
            Ordering::Greater => self.prefixes.len()..self.len(),
            Ordering::Equal if known < self.common => 0..0, // a proper prefix of all keys
            Ordering::Equal => self.undecided_behind_common(prefix(&user[known..])),
        }
    }

    /// Returns the range of keys whose integer is `wanted`. The last key of the array has no
    /// integer; if the range would end directly before the last key, it includes this key too.
    fn undecided_behind_common(&self, wanted: u64) -> Range<usize> {
        let from = (self.stretches.partition_point(|&last| last < wanted) * STRETCH).min(self.prefixes.len());
        let to = (from + STRETCH).min(self.prefixes.len());
        let low = from + self.prefixes[from..to].partition_point(|&prefix| prefix < wanted);
        let end = low + tied(&self.prefixes[low..], wanted);
        low..if end == self.prefixes.len() { self.len() } else { end }
    }
}

/// Returns how many elements at the start of the sorted list `prefixes` equal `wanted`. The number
/// is usually small.
fn tied(prefixes: &[u64], wanted: u64) -> usize {
    let mut some = 1;
    while prefixes.get(some - 1) == Some(&wanted) {
        some *= 2;
    }
    let within = &prefixes[some / 2..prefixes.len().min(some)];
    some / 2 + within.partition_point(|&prefix| prefix == wanted)
}

/// Returns the first eight bytes as an integer that sorts as the bytes do. If there are fewer than
/// eight bytes, zeros are appended.
fn prefix(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let known = bytes.len().min(8);
    match bytes.first_chunk() {
        Some(whole) => word = *whole,
        None => word[..known].copy_from_slice(bytes),
    }
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comparator, Kind, SeqNo};
    use proptest::{collection::vec, prelude::*};
    use std::sync::Arc;

    struct Backwards;

    impl Comparator for Backwards {
        fn name(&self) -> &str {
            "backwards"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            b.cmp(a)
        }
    }

    fn fences(order: &KeyOrder, keys: &[Vec<u8>]) -> Fences {
        let ends = keys.iter().scan(0, |end, key| {
            *end += key.len();
            Some(*end)
        });
        Fences::new(order, keys.concat(), ends.collect())
    }

    proptest! {
        #[test]
        fn finds_what_a_search_over_whole_keys_finds(
            common in vec(0..3_u8, 0..12),
            users in vec((vec(prop_oneof![Just(0), Just(1), Just(0xff)], 0..12), 0..4_u64), 0..80),
            wanted in vec((vec(prop_oneof![Just(0), Just(1), Just(0xff)], 0..24), any::<bool>()), 1..20),
        ) {
            for order in [KeyOrder::Bytewise, KeyOrder::Custom(Arc::new(Backwards))] {
                let mut keys: Vec<Vec<u8>> = users
                    .iter()
                    .map(|(user, seq)| key::encode(&[&common[..], user].concat(), SeqNo(*seq), Kind::Put))
                    .collect();
                keys.sort_by(|a, b| order.internal(a, b));
                let fences = fences(&order, &keys);
                let others = wanted.iter().map(|(tail, inside)| {
                    let user = if *inside { [&common[..], tail].concat() } else { tail.clone() };
                    key::lookup(&user, SeqNo(2))
                });
                for target in others.chain(keys.clone()) {
                    let want = keys.partition_point(|key| order.internal(key, &target).is_lt());
                    prop_assert_eq!(fences.first_at_or_after(&order, &target), want);
                }
            }
        }
    }

    #[test]
    fn keys_with_equal_prefixes_are_distinguished() {
        let order = KeyOrder::default();
        // In this test the first 20 keys differ in the eight bytes after the common prefix. The
        // following `alike` keys have the same eight bytes and differ only after them.
        for alike in [1, 2, 15, 16, 17, 31, 33, 64, 80] {
            let user =
                |n: u64| [&[b'k'; 3][..], &n.min(20).to_be_bytes(), &n.saturating_sub(20).to_be_bytes()].concat();
            let keys: Vec<_> = (0..20 + alike).map(|n| key::lookup(&user(n), SeqNo(1))).collect();
            for (n, key) in keys.iter().enumerate() {
                assert_eq!(fences(&order, &keys).first_at_or_after(&order, key), n, "{alike}");
            }
        }
    }

    #[test]
    fn empty_and_unsorted_arrays_are_harmless() {
        let order = KeyOrder::Bytewise;
        assert_eq!(fences(&order, &[]).first_at_or_after(&order, &key::lookup(b"k", SeqNo(1))), 0);
        for count in [3, 15, 16, 17, 40, 100] {
            let unsorted: Vec<_> = (0..count).map(|n| key::lookup(&[(n * 89) as u8], SeqNo(1))).collect();
            for wanted in 0..=u8::MAX {
                let found = fences(&order, &unsorted).first_at_or_after(&order, &key::lookup(&[wanted], SeqNo(1)));
                assert!(found <= count);
            }
        }
    }
}
