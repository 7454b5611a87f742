//! The index of an open SSTable: maps a key to the only data block that may contain the key.
//!
//! The index is in memory as a whole, or, if the memory budget has no room for it, in part: then
//! lookups read a partition of the index block from the file.
mod partition;
mod sparse;

use super::ByteSource;
use crate::Result;
pub(super) use partition::Partition;
pub(super) use sparse::PARTITION_ENTRIES;
use sparse::Sparse;
use std::sync::Arc;
use terrace_format::{KeyOrder, footer::Handle};

/// The index of an open table.
pub(super) enum Index {
    /// All entries in memory.
    Whole(Arc<Partition>),
    /// The last key of each partition in memory.
    Sparse(Sparse),
}

impl Index {
    /// Returns the number of data blocks.
    pub fn len(&self) -> usize {
        match self {
            Index::Whole(all) => all.end(),
            Index::Sparse(sparse) => sparse.len(),
        }
    }

    /// Returns whether all entries are in memory.
    pub fn is_whole(&self) -> bool {
        matches!(self, Index::Whole(_))
    }

    /// Returns the position and the handle of the only block that may contain `key`; `None` if
    /// `key` is after all blocks.
    #[inline]
    pub fn find(&self, source: &dyn ByteSource, order: &KeyOrder, key: &[u8]) -> Result<Option<(usize, Handle)>> {
        match self {
            Index::Whole(all) => {
                let at = all.seek(order, key);
                Ok(all.handle(at).map(|handle| (at, handle)))
            }
            Index::Sparse(sparse) => sparse.find(source, order, key),
        }
    }

    /// Returns the partition with the entry of the only block that may contain `key`. If `key` is
    /// after all blocks, returns the last partition.
    pub fn partition_for(&self, source: &dyn ByteSource, order: &KeyOrder, key: &[u8]) -> Result<Arc<Partition>> {
        match self {
            Index::Whole(all) => Ok(all.clone()),
            Index::Sparse(sparse) => sparse.partition_for(source, order, key).map(Arc::new),
        }
    }

    /// Returns the partition with the entry of block `at`. If there is no such block, returns the
    /// last partition.
    pub fn partition_at(&self, source: &dyn ByteSource, order: &KeyOrder, at: usize) -> Result<Arc<Partition>> {
        match self {
            Index::Whole(all) => Ok(all.clone()),
            Index::Sparse(sparse) => sparse.partition_at(source, order, at).map(Arc::new),
        }
    }

    /// Returns the index with only a part of its entries in memory; `None` if that would save
    /// nothing. `handle` is the handle of the index block.
    pub fn to_sparse(&self, source: &dyn ByteSource, order: &KeyOrder, handle: Handle) -> Result<Option<Index>> {
        match self {
            Index::Whole(all) => Ok(Sparse::of(source, order, handle, all)?.map(Index::Sparse)),
            Index::Sparse(_) => Ok(None),
        }
    }

    /// Returns the size of the index in memory, in bytes.
    pub fn byte_len(&self) -> usize {
        match self {
            Index::Whole(all) => all.byte_len(),
            Index::Sparse(sparse) => sparse.byte_len(),
        }
    }
}
