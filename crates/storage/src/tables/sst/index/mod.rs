//! The index of an open SSTable: maps a key to the only data block that may contain the key.
//!
//! The index is in memory as a whole, or, if the memory budget has no room for it, in part: then
//! lookups read a partition of the index block from the file.
mod partition;
mod sparse;

use super::ByteSource;
use crate::Result;
pub(super) use partition::Partition;
use sparse::{PARTITION_ENTRIES, Sparse};
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

    /// Returns whether [`Index::to_sparse`] may save memory, as far as the size of the index tells.
    pub fn is_large(&self) -> bool {
        self.is_whole() && self.len() > PARTITION_ENTRIES
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

    /// Returns the index with only a part of its entries in memory; `None` if that is not possible.
    /// `handle` and `contents` are those of the index block, which is stored
    /// uncompressed.
    pub fn to_sparse(&self, order: &KeyOrder, handle: Handle, contents: &[u8]) -> Option<Index> {
        match self {
            Index::Whole(all) => Sparse::of(order, handle, contents, all).map(Index::Sparse),
            Index::Sparse(_) => None,
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
