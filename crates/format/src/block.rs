//! Blocks of sorted entries, each key stored as what differs from the key before.
//!
//! ```text
//! block = entry* ++ restart offsets (fixed32 each) ++ count of restarts (fixed32)
//! entry = varint32 shared      bytes taken over from the previous key; 0 at a restart
//!         varint32 unshared    bytes of key that follow
//!         varint32 value bytes
//!         key[shared..], value
//! ```
//! Every n-th entry is a restart, so that a search can begin there. Data, index and metaindex blocks are such
//! blocks. Source: LevelDB's `table/block.cc`, `block_builder.cc`; spec: docs/format/table.md.
mod build;
mod bytes;
mod cursor;
mod entry;
mod find;
mod keys;

pub use build::{BlockBuilder, common_prefix};
pub use bytes::Bytes;
pub use cursor::BlockCursor;

use crate::{Corrupt, KeyOrder, key::TRAILER_BYTES};
use std::ops::Range;

/// A block as read, uncompressed. Its frame is checked at once, its entries as a [`BlockCursor`] meets them.
#[derive(Clone, Debug)]
pub struct Block {
    bytes: Bytes,
    entries_end: usize, // where the restart offsets begin
    restarts: usize,
    key_bytes_min: usize,
    /// In which a cursor must meet the keys; `None` leaves that to its caller.
    order: Option<KeyOrder>,
}

impl Block {
    /// A block whose keys may be any bytes, such as a metaindex.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Block, Corrupt> {
        Block::with_keys_of(0, bytes.into())
    }

    /// A block whose keys are internal keys, such as a data or an index block. A cursor refuses a shorter key as
    /// damage, so that comparing need not.
    pub fn of_internal_keys(bytes: impl Into<Bytes>) -> Result<Block, Corrupt> {
        Block::with_keys_of(TRAILER_BYTES, bytes.into())
    }

    /// A block of internal keys that `order` sorts. A cursor that walks from one key to a key that does not follow it reports
    /// corruption.
    pub fn of_sorted_keys(bytes: impl Into<Bytes>, order: &KeyOrder) -> Result<Block, Corrupt> {
        Ok(Block { order: Some(order.clone()), ..Block::of_internal_keys(bytes)? })
    }

    fn with_keys_of(key_bytes_min: usize, bytes: Bytes) -> Result<Block, Corrupt> {
        let Some(count_at) = bytes.len().checked_sub(4) else {
            return Err(Corrupt::new("block", 0, format!("{} bytes, too short for a count of restarts", bytes.len())));
        };
        let restarts = fixed32_at(&bytes, count_at) as usize;
        if restarts > count_at / 4 {
            return Err(Corrupt::new("block", count_at as u64, format!("{restarts} restarts do not fit")));
        }
        let entries_end = count_at - 4 * restarts;
        if restarts == 0 && entries_end > 0 {
            return Err(Corrupt::new("block", count_at as u64, "entries without a restart"));
        }
        Ok(Block { bytes, entries_end, restarts, key_bytes_min, order: None })
    }

    /// Bytes that it occupies.
    pub fn byte_len(&self) -> usize {
        self.bytes.flat().len()
    }

    /// The part of the block at `range`, on its own; copied where nobody else keeps the bytes. `None` if there is none.
    pub fn part(&self, range: Range<usize>) -> Option<Bytes> {
        self.bytes.part(range)
    }

    /// Where the entry of restart `index` begins, as the block says.
    fn restart(&self, index: usize) -> usize {
        fixed32_at(self.bytes.flat(), self.entries_end + 4 * index) as usize
    }
}

fn fixed32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests;
