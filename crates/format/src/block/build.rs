//! Builds blocks.
use crate::coding::{put_fixed32, put_varint32};

/// If a builder's buffer has grown beyond this size in bytes, the builder frees it after the block
/// instead of reusing it.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Builds blocks, one after the other.
#[derive(Debug)]
pub struct BlockBuilder {
    restart_interval: usize,
    bytes: Vec<u8>,
    restarts: Vec<u32>, // the first offset is 0
    since_restart: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Returns a builder that stores a whole key at every `restart_interval`-th entry (at least 1).
    pub fn new(restart_interval: usize) -> BlockBuilder {
        assert!(restart_interval >= 1, "a restart interval counts entries");
        BlockBuilder { restart_interval, bytes: Vec::new(), restarts: vec![0], since_restart: 0, last_key: Vec::new() }
    }

    /// Appends an entry. Keys must be strictly increasing.
    ///
    /// # Panics
    /// The panics of [`BlockBuilder::add_sharing`].
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.add_sharing(common_prefix(&self.last_key, key), key, value);
    }

    /// Appends an entry whose longest common prefix with [`BlockBuilder::last_key`] is `shared`
    /// bytes long.
    ///
    /// # Panics
    /// If `key` or `value` is longer than `u32::MAX` bytes; callers limit both. If the block
    /// reaches 4 GiB before a restart point; callers end a block long before that. If `shared` is
    /// larger than the length of `key` or of the last key.
    pub fn add_sharing(&mut self, shared: usize, key: &[u8], value: &[u8]) {
        let stored_shared = if self.bytes.is_empty() {
            0
        } else if self.since_restart < self.restart_interval {
            shared
        } else {
            self.restarts.push(length(self.bytes.len()));
            self.since_restart = 0;
            0
        };
        let unshared = &key[stored_shared..];
        let sizes = [length(stored_shared), length(unshared.len()), length(value.len())];
        if sizes.iter().all(|&size| size < 0x80) {
            self.bytes.extend_from_slice(&sizes.map(|size| size as u8)); // three one-byte varints
        } else {
            sizes.iter().for_each(|&size| put_varint32(&mut self.bytes, size));
        }
        self.bytes.extend_from_slice(unshared);
        self.bytes.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.since_restart += 1;
    }

    /// Sets `key` as the last key, although its entry is in a block that another builder built. The
    /// current block must be empty.
    pub fn pass(&mut self, key: &[u8]) {
        debug_assert!(self.is_empty());
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    /// Returns the size in bytes of the block that [`BlockBuilder::finish`] would produce now.
    pub fn byte_len(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// Returns whether the current block has no entries.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the last key added to this or an earlier block; empty if there was none.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Completes the block. Call [`BlockBuilder::reset`] before adding the next entry.
    pub fn finish(&mut self) -> &[u8] {
        for restart in &self.restarts {
            put_fixed32(&mut self.bytes, *restart);
        }
        put_fixed32(&mut self.bytes, length(self.restarts.len()));
        &self.bytes
    }

    /// Starts the next block. Keeps the buffer, unless it has grown unusually large.
    pub fn reset(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.restarts.truncate(1);
        self.since_restart = 0;
    }
}

/// Returns the length of the longest common prefix of `a` and `b`, in bytes.
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut alike = 0;
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return alike + (differing.trailing_zeros() / 8) as usize;
        }
        alike += 8;
    }
    alike + a[alike..].iter().zip(&b[alike..]).take_while(|(a, b)| a == b).count()
}

fn length(n: usize) -> u32 {
    u32::try_from(n).expect("callers limit keys, values and the block before an entry to u32::MAX bytes")
}
