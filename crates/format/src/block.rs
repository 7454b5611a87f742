//! Blocks of sorted entries with prefix-compressed keys.
//!
//! ```text
//! block = entry* ++ restart offsets (fixed32 each) ++ number of restarts (fixed32)
//! entry = varint32 shared      bytes shared with the previous key; 0 at a restart point
//!         varint32 unshared    bytes of the key that follow
//!         varint32 value bytes
//!         key[shared..], value
//! ```
//! Every n-th entry is a restart point: it stores its whole key, so a search can begin there.
//! Data, index and metaindex blocks have this format. Source: LevelDB's `table/block.cc`,
//! `block_builder.cc`; spec: docs/format/table.md.
mod build;
mod bytes;
mod cursor;
mod entry;
mod find;
mod keys;

pub use build::{BlockBuilder, common_prefix};
pub use bytes::Bytes;
use bytes::Contents;
pub use cursor::BlockCursor;
pub use entry::whole_entries;

use crate::{Corrupt, KeyOrder, key::TRAILER_BYTES};
use std::ops::Range;

/// An uncompressed block. The restart offsets at its end are verified when the block is opened. An
/// entry is verified when a [`BlockCursor`] reaches it.
///
/// `B` owns or borrows the bytes of the block.
#[derive(Clone, Debug)]
pub struct Block<B = Bytes> {
    bytes: B,
    entries_end: usize, // start of the restart offsets
    restarts: usize,
    key_bytes_min: usize,
    /// The order by which a cursor verifies that each key is greater than the previous one. If it
    /// is `None`, the caller must verify the order of the keys.
    order: Option<KeyOrder>,
}

impl Block {
    /// Opens a block whose keys may be any bytes, such as a metaindex block.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Block, Corrupt> {
        Block::with_keys_of(0, bytes.into())
    }

    /// Opens a block of internal keys, such as a data or index block. If a key is shorter than a
    /// trailer (the sequence number and kind), a cursor reports corruption. Comparisons therefore
    /// need no length check.
    pub fn of_internal_keys(bytes: impl Into<Bytes>) -> Result<Block, Corrupt> {
        Block::with_keys_of(TRAILER_BYTES, bytes.into())
    }

    /// Opens a block of internal keys sorted by `order`. If a cursor reaches a key that is out of
    /// order, it reports corruption.
    pub fn of_sorted_keys(bytes: impl Into<Bytes>, order: &KeyOrder) -> Result<Block, Corrupt> {
        Ok(Block { order: Some(order.clone()), ..Block::of_internal_keys(bytes)? })
    }

    /// Returns the size of the block in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.flat().len()
    }

    /// Returns the bytes of the block at `range`, or `None` if the range exceeds the block. The
    /// call copies the bytes only if the block is the only owner of its buffer; otherwise the
    /// result shares the buffer.
    pub fn part(&self, range: Range<usize>) -> Option<Bytes> {
        self.bytes.part(range)
    }
}

impl<B: Contents> Block<B> {
    /// Returns the first key of the block, or `None` if the block is empty or the key is invalid.
    pub fn first_key(&self) -> Option<&[u8]> {
        if self.entries_end > 0 { self.restart_key(0).ok() } else { None }
    }
}

impl<'a> Block<&'a [u8]> {
    /// Opens a block as [`Block::of_internal_keys`] does, without owning its bytes.
    pub fn of_borrowed_keys(bytes: &'a [u8]) -> Result<Block<&'a [u8]>, Corrupt> {
        Block::with_keys_of(TRAILER_BYTES, bytes)
    }
}

impl<B: Contents> Block<B> {
    fn with_keys_of(key_bytes_min: usize, owner: B) -> Result<Block<B>, Corrupt> {
        let bytes = owner.flat();
        let Some(count_at) = bytes.len().checked_sub(4) else {
            return Err(Corrupt::new("block", 0, format!("{} bytes, too short for a count of restarts", bytes.len())));
        };
        let restarts = fixed32_at(bytes, count_at) as usize;
        if restarts > count_at / 4 {
            return Err(Corrupt::new("block", count_at as u64, format!("{restarts} restarts do not fit")));
        }
        let entries_end = count_at - 4 * restarts;
        if restarts == 0 && entries_end > 0 {
            return Err(Corrupt::new("block", count_at as u64, "entries without a restart"));
        }
        Ok(Block { bytes: owner, entries_end, restarts, key_bytes_min, order: None })
    }

    /// Returns the number of restart points.
    pub fn restarts(&self) -> usize {
        self.restarts
    }

    /// Returns the bytes of the entries from restart point `range.start` to the one before restart
    /// point `range.end`; empty if the block does not have these restart points in this order.
    pub fn entries_between(&self, range: Range<usize>) -> &[u8] {
        let offset = |index| if index < self.restarts { self.restart(index) } else { self.entries_end };
        self.bytes.flat()[..self.entries_end].get(offset(range.start)..offset(range.end)).unwrap_or_default()
    }

    /// Returns the offset of restart point `index` as the block stores it. The offset is not
    /// verified.
    fn restart(&self, index: usize) -> usize {
        fixed32_at(self.bytes.flat(), self.entries_end + 4 * index) as usize
    }
}

fn fixed32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests;
