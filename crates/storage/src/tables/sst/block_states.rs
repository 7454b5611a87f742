//! Records which data blocks of an open table lookups may read through the mapping of the table.
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The block was read since the table was opened, and it is not compressed.
const RAW: u8 = 1;
/// The block was read since the table was opened, and it is compressed.
const COMPRESSED: u8 = 2;
/// The checksum of the block was verified since the table was opened.
const VERIFIED: u8 = 4;

/// The state of each data block of an open table: a set of [`RAW`], [`COMPRESSED`] and
/// [`VERIFIED`]. The list is empty if the table is not mapped.
pub(super) struct BlockStates(Box<[AtomicU8]>);

impl BlockStates {
    /// Makes the states of `count` blocks that were not read yet.
    pub fn new(count: usize) -> BlockStates {
        BlockStates((0..count).map(|_| AtomicU8::new(0)).collect())
    }

    /// Returns the size in bytes.
    pub fn byte_len(&self) -> usize {
        self.0.len()
    }

    /// Records that block `at` was read. Returns whether lookups may read it through the mapping
    /// from now on.
    pub fn admit(&self, at: usize, is_raw: bool, is_verified: bool) -> bool {
        let Some(state) = self.0.get(at) else { return false };
        let form = if is_raw { RAW } else { COMPRESSED };
        state.fetch_or(if is_verified { form | VERIFIED } else { form }, Relaxed);
        is_raw
    }

    /// Returns whether block `at` is known to be compressed.
    pub fn is_compressed(&self, at: usize) -> bool {
        self.0.get(at).is_none_or(|state| state.load(Relaxed) & COMPRESSED != 0)
    }

    /// Returns whether block `at` may be read through the mapping.
    pub fn is_admitted(&self, at: usize, must_be_verified: bool) -> bool {
        let needed = if must_be_verified { RAW | VERIFIED } else { RAW };
        self.0.get(at).is_some_and(|state| state.load(Relaxed) & needed == needed)
    }
}
