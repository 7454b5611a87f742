//! Filters: compact summaries of keys. For most keys that are absent, a filter proves that they
//! are absent.
//!
//! ```text
//! bloom filter   = bits ++ number of probes (1 byte); an empty filter matches nothing
//!                  bit i is bit i % 8 of byte i / 8
//! filter block   = filter* ++ offset of each filter (fixed32) ++ start of these offsets (fixed32)
//!                  ++ 11 (1 byte): log2 of the 2048 bytes of the SSTable that a filter covers
//!                  filter i covers the data blocks that start in [2048 i, 2048 (i + 1))
//! ```
//! LevelDB stores a filter block under the name `filter.NAME`. Terrace can instead store one
//! filter for the whole SSTable, under the name `terrace.filter.NAME`. A filter policy receives
//! user keys, not internal keys. Source: LevelDB's `util/bloom.cc`, `util/hash.cc`,
//! `table/filter_block.cc`; spec: docs/format/table.md.
mod block;
mod bloom;

pub use block::{FilterBlock, FilterBlockBuilder};
pub use bloom::Bloom;
use std::sync::Arc;

/// A filter algorithm. The encoding of a policy with a given name must never change.
pub trait FilterPolicy: Send + Sync {
    /// Returns the name, which becomes part of the meta block's name.
    fn name(&self) -> &str;
    /// Appends a filter for `keys` to `out`. Keys may be repeated.
    fn create(&self, keys: &[&[u8]], out: &mut Vec<u8>);
    /// Returns whether `key` may be among the keys of `filter`; false proves that the key is
    /// absent. `filter` may be any bytes, not only the result of [`create`](FilterPolicy::create).
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool;
    /// Returns the policy as a [`HashPolicy`] if it implements this trait. The filter for a whole
    /// SSTable is then built from hashes instead of keys.
    fn by_hash(self: Arc<Self>) -> Option<Arc<dyn HashPolicy>> {
        None
    }
}

/// A filter algorithm that needs only a 32-bit hash of each key, as LevelDB's does.
pub trait HashPolicy: Send + Sync {
    /// Returns the hash of `key`.
    fn hash(&self, key: &[u8]) -> u32;
    /// Appends the filter that [`FilterPolicy::create`] would append for keys with these hashes. If
    /// several adjacent keys have the same hash, the caller passes the hash once.
    fn create_of(&self, hashes: &[u32], out: &mut Vec<u8>);
}

/// Returns the metaindex key of LevelDB's filter block.
pub fn block_meta_name(policy: &dyn FilterPolicy) -> String {
    format!("filter.{}", policy.name())
}

/// Returns the metaindex key of a whole-table filter.
pub fn table_meta_name(policy: &dyn FilterPolicy) -> String {
    format!("terrace.filter.{}", policy.name())
}
