//! Into how many data blocks a table was cut, and whether it takes another one as it is.
use crate::{StorageConfig, tables::WholeBlock};
use terrace_format::footer::BLOCK_TRAILER_BYTES;

/// Data blocks of a table, and their uncompressed bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    blocks: u64,
    bytes: u64,
}

impl Cut {
    /// Another block, of so many bytes.
    pub fn add(&mut self, bytes: usize) {
        self.blocks += 1;
        self.bytes += bytes as u64;
    }

    /// Whether `block` may be next in a table under `setup`. What is gathered before it ends with a block that may be small, and it may be
    /// small itself; indexes and scans pay for blocks that are. On average they keep three quarters of the size.
    pub fn takes(mut self, setup: &StorageConfig, block: &WholeBlock<'_>) -> bool {
        let bytes = block.entries.block_bytes();
        self.add(bytes);
        let is_enough = 4 * self.bytes >= 3 * setup.block_size as u64 * self.blocks;
        let is_too_much = bytes >= 3 * setup.block_size && block.entries.at_hand().nth(1).is_some();
        let codec = block.sealed.len().checked_sub(BLOCK_TRAILER_BYTES).map(|at| block.sealed[at]);
        is_enough && !is_too_much && codec == Some(setup.codec as u8)
    }
}
