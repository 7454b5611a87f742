//! Writing blocks.
use crate::coding::{put_fixed32, put_varint32};

/// Makes one block after another.
#[derive(Debug)]
pub struct BlockBuilder {
    restart_interval: usize,
    bytes: Vec<u8>,
    restarts: Vec<u32>, // begins with 0
    since_restart: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Every `restart_interval`-th entry, at least 1, stores its whole key.
    pub fn new(restart_interval: usize) -> BlockBuilder {
        assert!(restart_interval >= 1, "a restart interval counts entries");
        BlockBuilder { restart_interval, bytes: Vec::new(), restarts: vec![0], since_restart: 0, last_key: Vec::new() }
    }

    /// Adds an entry. Keys come in order, each once.
    ///
    /// # Panics
    /// If `key` or `value` is longer than `u32::MAX` bytes, or the block reaches 4 GiB before a restart. Callers
    /// limit the former, and end a block long before the latter.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let shared = if self.since_restart < self.restart_interval {
            self.last_key.iter().zip(key).take_while(|(a, b)| a == b).count()
        } else {
            self.restarts.push(length(self.bytes.len()));
            self.since_restart = 0;
            0
        };
        let unshared = &key[shared..];
        put_varint32(&mut self.bytes, length(shared));
        put_varint32(&mut self.bytes, length(unshared.len()));
        put_varint32(&mut self.bytes, length(value.len()));
        self.bytes.extend_from_slice(unshared);
        self.bytes.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(unshared);
        self.since_restart += 1;
    }

    /// Bytes that [`BlockBuilder::finish`] would return now.
    pub fn byte_len(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// Whether there is no entry yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The key added last; empty if there is none.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Completes the block. [`BlockBuilder::reset`] must come before the next entry.
    pub fn finish(&mut self) -> &[u8] {
        for restart in &self.restarts {
            put_fixed32(&mut self.bytes, *restart);
        }
        put_fixed32(&mut self.bytes, length(self.restarts.len()));
        &self.bytes
    }

    /// Begins the next block. Keeps the memory.
    pub fn reset(&mut self) {
        self.bytes.clear();
        self.restarts.truncate(1);
        self.since_restart = 0;
        self.last_key.clear();
    }
}

fn length(n: usize) -> u32 {
    u32::try_from(n).expect("callers limit keys, values and the block before an entry to u32::MAX bytes")
}
