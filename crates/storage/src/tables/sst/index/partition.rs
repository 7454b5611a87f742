//! Consecutive entries of an index block in memory.
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

/// Consecutive entries of an index block, in key order, one for each data block. All positions are
/// those in the whole index.
pub(in crate::tables::sst) struct Partition {
    /// The position of the first entry.
    first: usize,
    /// The index key of the previous entry; empty if there is none.
    before: Vec<u8>,
    /// The index keys. The index key of a block is at or after the last key of the block, and
    /// before the first key of the next block.
    fences: Fences,
    handles: Vec<Handle>,
}

impl Partition {
    /// Decodes all entries of the index block. Every entry must contain a valid block handle.
    pub fn whole(order: &KeyOrder, block: Block) -> Result<Partition, Corrupt> {
        let keys_bytes_max = block.byte_len().saturating_mul(EXPANSION_MAX);
        let mut cursor = BlockCursor::new(Arc::new(block));
        let mut entries = Entries::default();
        cursor.seek_first()?;
        while cursor.valid() {
            entries.add(cursor.key(), cursor.value())?;
            if entries.keys.len() > keys_bytes_max {
                return Err(Corrupt::new("index", 0, format!("its keys take more than {keys_bytes_max} bytes")));
            }
            cursor.next()?;
        }
        Ok(entries.partition(order, 0, Vec::new()))
    }

    /// Decodes `entries` (pairs of an index key and an encoded handle), which begin at position
    /// `first` of the index, after the entry with the key `before`.
    pub(super) fn decode<'a>(
        order: &KeyOrder,
        entries: impl Iterator<Item = Result<(&'a [u8], &'a [u8]), Corrupt>>,
        first: usize,
        before: Vec<u8>,
    ) -> Result<Partition, Corrupt> {
        let mut decoded = Entries::default();
        for entry in entries {
            let (key, handle) = entry?;
            decoded.add(key, handle)?;
        }
        Ok(decoded.partition(order, first, before))
    }

    /// Checks that index keys ascend. If the index key of a block were out of order, lookups would
    /// miss all entries of the block.
    pub fn check_order(&self, order: &KeyOrder) -> Result<(), Corrupt> {
        let follows = |at: usize| order.internal(self.key(at - 1), self.key(at)).is_lt();
        match (self.first + 1..self.end()).find(|at| !follows(*at)) {
            None => Ok(()),
            Some(at) => {
                let [before, key] = [at - 1, at].map(|at| key::user_key(self.key(at)).escape_ascii().to_string());
                let text = format!("the index key {key} of block {at} does not follow {before}");
                Err(Corrupt::new("index", 0, text))
            }
        }
    }

    /// Returns the position after the last entry.
    pub fn end(&self) -> usize {
        self.first + self.handles.len()
    }

    /// Returns the position of the first entry with a key at or after `key`; [`Partition::end`] if
    /// there is none.
    pub fn seek(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.first + self.fences.first_at_or_after(order, key)
    }

    /// Returns whether the first entry of the whole index with a key at or after `key` is in this
    /// partition.
    pub fn covers(&self, order: &KeyOrder, key: &[u8]) -> bool {
        let follows = self.before.is_empty() || order.internal(&self.before, key).is_lt();
        follows && self.seek(order, key) < self.end()
    }

    /// Returns the handle of block `at`; `None` if its entry is not in this partition.
    pub fn handle(&self, at: usize) -> Option<Handle> {
        self.handles.get(at.wrapping_sub(self.first)).copied()
    }

    /// Returns the index key of block `at`, whose entry must be in this partition.
    pub fn key(&self, at: usize) -> &[u8] {
        self.fences.key(at - self.first)
    }

    /// Returns the index key of the block before block `at`, whose entry must be in this partition;
    /// `None` for the first block of the table.
    pub fn key_before(&self, at: usize) -> Option<&[u8]> {
        match at - self.first {
            0 => (self.first > 0).then_some(&self.before),
            at => Some(self.fences.key(at - 1)),
        }
    }

    /// Returns the size in memory, in bytes.
    pub fn byte_len(&self) -> usize {
        self.before.capacity() + self.fences.byte_len() + size_of::<Handle>() * self.handles.capacity()
    }
}

/// Entries while they are decoded.
#[derive(Default)]
struct Entries {
    keys: Vec<u8>,
    ends: Vec<usize>,
    handles: Vec<Handle>,
}

impl Entries {
    fn add(&mut self, key: &[u8], handle: &[u8]) -> Result<(), Corrupt> {
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len());
        self.handles.push(Handle::decode(handle)?);
        Ok(())
    }

    fn partition(self, order: &KeyOrder, first: usize, before: Vec<u8>) -> Partition {
        let Entries { mut keys, mut ends, mut handles } = self;
        keys.shrink_to_fit();
        ends.shrink_to_fit();
        handles.shrink_to_fit();
        Partition { first, before, fences: Fences::new(order, keys, ends), handles }
    }
}
