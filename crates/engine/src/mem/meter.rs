//! Counts a memtable's memory in the same way as LevelDB's arena. `write_buffer_size` therefore
//! has the same meaning as in LevelDB, and the same writes fill a memtable after the same entry as
//! in LevelDB. Source of the rules: LevelDB's `util/arena.cc`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BLOCK_BYTES: u64 = 4096;
/// LevelDB's arena gives a request for more than this many bytes (a quarter of a block) a block of
/// its own.
const OWN_BLOCK_ABOVE: u64 = BLOCK_BYTES / 4;
const POINTER_BYTES: u64 = 8;

/// The number of bits of a meter's state that hold the bytes left in the last block.
const LEFT_BITS: u32 = 13;

/// Counts the memory that LevelDB's arena, with blocks of 4 KiB, would use. Thread-safe.
#[derive(Debug, Default)]
pub struct ArenaMeter(AtomicU64); // bytes used, then bytes left in the last block

impl ArenaMeter {
    /// Adds one entry to the count: the encoded size of the entry, and a skip-list node with
    /// `height` links.
    pub fn entry(&self, key_bytes: usize, value_bytes: usize, height: usize) {
        let encoded = varint_bytes(key_bytes) + key_bytes as u64 + varint_bytes(value_bytes) + value_bytes as u64;
        let after = |state: u64| {
            let mut fill = Fill { taken: state >> LEFT_BITS, left_in_block: state & ((1 << LEFT_BITS) - 1) };
            fill.entry(encoded, height);
            Some(fill.taken << LEFT_BITS | fill.left_in_block)
        };
        self.0.fetch_update(Relaxed, Relaxed, after).expect("every state has a successor");
    }

    /// Adds `bytes` bytes of data that LevelDB's arena does not have.
    pub fn add_bytes(&self, bytes: u64) {
        self.0.fetch_add(bytes << LEFT_BITS, Relaxed);
    }

    /// Returns the bytes counted so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed) >> LEFT_BITS
    }
}

/// A meter's state, unpacked.
struct Fill {
    taken: u64,
    left_in_block: u64,
}

impl Fill {
    fn entry(&mut self, encoded: u64, height: usize) {
        self.allocate(encoded);
        let misaligned = self.left_in_block % POINTER_BYTES;
        let node = POINTER_BYTES * (1 + height as u64);
        self.allocate(if self.left_in_block >= node + misaligned { node + misaligned } else { node });
    }

    fn allocate(&mut self, bytes: u64) {
        if bytes <= self.left_in_block {
            self.left_in_block -= bytes;
        } else if bytes > OWN_BLOCK_ABOVE {
            self.taken += bytes + POINTER_BYTES;
        } else {
            self.taken += BLOCK_BYTES + POINTER_BYTES;
            self.left_in_block = BLOCK_BYTES - bytes;
        }
    }
}

fn varint_bytes(value: usize) -> u64 {
    u64::from((usize::BITS - (value | 1).leading_zeros()).div_ceil(7))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_entries_share_a_block_and_large_ones_have_their_own() {
        let meter = ArenaMeter::default();
        meter.entry(24, 100, 1); // 1 + 24 + 1 + 100 bytes, then a node of 16
        assert_eq!(meter.bytes(), 4096 + 8);
        meter.entry(24, 5000, 1);
        assert_eq!(meter.bytes(), 4096 + 8 + (1 + 24 + 2 + 5000) + 8);
        assert_eq!((varint_bytes(0), varint_bytes(127), varint_bytes(128)), (1, 1, 2));
    }
}
