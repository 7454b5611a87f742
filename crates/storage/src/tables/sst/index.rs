//! A table's index, taken apart when the table is opened: which block may hold a key, and where that block is.
use std::sync::Arc;
use terrace_format::{
    Corrupt, KeyOrder,
    block::{Block, BlockCursor},
    fences::Fences,
    footer::Handle,
    key,
};

/// Index keys may share what they begin with, so a small block may stand for long ones; beyond this many times its own
/// size it is not believed.
const EXPANSION_MAX: usize = 64;

/// Blocks in the order of their keys.
pub(super) struct Index {
    /// The keys under which blocks are listed: each at or after its block's last key, before the next one's first.
    fences: Fences,
    handles: Vec<Handle>,
}

impl Index {
    /// From the index block. Every entry must name a block.
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

    /// An error unless each block is listed under a key behind that of the block before it: no search would find what is in the others.
    pub fn check_order(&self, order: &KeyOrder) -> Result<(), Corrupt> {
        let follows = |at: usize| order.internal(self.key(at - 1), self.key(at)).is_lt();
        match (1..self.len()).find(|at| !follows(*at)) {
            None => Ok(()),
            Some(at) => {
                let [before, key] = [at - 1, at].map(|at| key::user_key(self.key(at)).escape_ascii().to_string());
                let text = format!("block {at} of the table is listed under key {key}, behind one under {before}");
                Err(Corrupt::new("index", 0, text))
            }
        }
    }

    /// How many blocks.
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// The block that `key` is in if it is anywhere; [`Index::len`] if that is behind all of them.
    pub fn seek(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.fences.first_at_or_after(order, key)
    }

    /// Where block `at` is; `None` behind the last one.
    pub fn handle(&self, at: usize) -> Option<Handle> {
        self.handles.get(at).copied()
    }

    /// The key under which block `at`, which must be there, is listed.
    pub fn key(&self, at: usize) -> &[u8] {
        self.fences.key(at)
    }

    /// Memory it takes, in bytes.
    pub fn byte_len(&self) -> usize {
        self.fences.byte_len() + size_of::<Handle>() * self.handles.capacity()
    }
}
