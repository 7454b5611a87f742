//! Counts the data blocks of a table that is being written, and decides whether to copy a block of
//! another table unchanged.
use crate::{StorageConfig, tables::WholeBlock};
use terrace_format::footer::BLOCK_TRAILER_BYTES;

/// The number of data blocks of a table, and their total uncompressed size in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    blocks: u64,
    bytes: u64,
}

impl Cut {
    /// Counts one more block of `bytes` bytes.
    pub fn add(&mut self, bytes: usize) {
        self.blocks += 1;
        self.bytes += bytes as u64;
    }

    /// Returns whether `block` may be copied whole into the table. The copy ends the block that is
    /// being filled, which may then be small, and the copied block may be small too. Small blocks
    /// take more index space and make scans slower. Therefore the copy is allowed only if the
    /// average block size of the table stays at or above three quarters of `block_size`.
    pub fn takes(mut self, setup: &StorageConfig, block: &WholeBlock<'_>) -> bool {
        let bytes = block.entries.block_bytes();
        self.add(bytes);
        let is_enough = 4 * self.bytes >= 3 * setup.block_size as u64 * self.blocks;
        let is_too_much = bytes >= 3 * setup.block_size && block.entries.window_entries().nth(1).is_some();
        let codec = block.sealed.len().checked_sub(BLOCK_TRAILER_BYTES).map(|at| block.sealed[at]);
        is_enough && !is_too_much && codec == Some(setup.codec as u8)
    }
}
