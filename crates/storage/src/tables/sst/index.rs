//! The index of an SSTable. It is decoded when the table is opened, and maps a key to the only
//! data block that may contain the key.
use std::sync::Arc;
use terrace_format::{
    Corrupt, KeyOrder,
    block::{Block, BlockCursor},
    fences::Fences,
    footer::Handle,
    key,
};

/// The maximum size of the decoded index keys, as a multiple of the size of the index block. Index
/// keys share prefixes, so a small corrupt block could decode to very long keys. A block that
/// exceeds this factor is rejected.
const EXPANSION_MAX: usize = 64;

/// The decoded index of a table: its entries in key order, one for each data block.
pub(super) struct Index {
    /// The index keys. The index key of a block is at or after the last key of the block, and
    /// before the first key of the next block.
    fences: Fences,
    handles: Vec<Handle>,
}

impl Index {
    /// Decodes the index block. Every entry must contain a valid block handle.
    pub fn new(order: &KeyOrder, block: Block) -> Result<Index, Corrupt> {
        let keys_bytes_max = block.byte_len().saturating_mul(EXPANSION_MAX);
        let mut cursor = BlockCursor::new(Arc::new(block));
        let (mut keys, mut ends, mut handles) = (Vec::new(), Vec::new(), Vec::new());
        cursor.seek_first()?;
        while cursor.valid() {
            keys.extend_from_slice(cursor.key());
            if keys.len() > keys_bytes_max {
                return Err(Corrupt::new("index", 0, format!("its keys take more than {keys_bytes_max} bytes")));
            }
            ends.push(keys.len());
            handles.push(Handle::decode(cursor.value())?);
            cursor.next()?;
        }
        keys.shrink_to_fit();
        ends.shrink_to_fit();
        handles.shrink_to_fit();
        Ok(Index { fences: Fences::new(order, keys, ends), handles })
    }

    /// Checks that index keys ascend. If the index key of a block were out of order, lookups would
    /// miss all entries of the block.
    pub fn check_order(&self, order: &KeyOrder) -> Result<(), Corrupt> {
        let follows = |at: usize| order.internal(self.key(at - 1), self.key(at)).is_lt();
        match (1..self.len()).find(|at| !follows(*at)) {
            None => Ok(()),
            Some(at) => {
                let [before, key] = [at - 1, at].map(|at| key::user_key(self.key(at)).escape_ascii().to_string());
                let text = format!("the index key {key} of block {at} does not follow {before}");
                Err(Corrupt::new("index", 0, text))
            }
        }
    }

    /// Returns the number of data blocks.
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// Returns the position of the only block that may contain `key`; [`Index::len`] if `key` is
    /// after all blocks.
    pub fn seek(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.fences.first_at_or_after(order, key)
    }

    /// Returns the handle of block `at`; `None` after the last block.
    pub fn handle(&self, at: usize) -> Option<Handle> {
        self.handles.get(at).copied()
    }

    /// Returns the index key of block `at`, which must exist.
    pub fn key(&self, at: usize) -> &[u8] {
        self.fences.key(at)
    }

    /// Returns the size of the index in memory, in bytes.
    pub fn byte_len(&self) -> usize {
        self.fences.byte_len() + size_of::<Handle>() * self.handles.capacity()
    }
}
