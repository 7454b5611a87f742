//! Filters: small blocks that say "surely not here" of most keys that are absent.
//!
//! ```text
//! bloom filter   = bits (bytes, bit i is bit i % 8 of byte i / 8) ++ count of probes (1 byte); empty admits nothing
//! filter block   = filter* ++ offset of each filter (fixed32) ++ offset of these offsets (fixed32) ++ 11
//!                  filter i covers the data blocks that begin in [2048 i, 2048 (i + 1))
//! ```
//! A table of LevelDB has a filter block, under `filter.NAME`; ours may instead have one filter of all its keys,
//! under `terrace.filter.NAME`. Policies always see user keys. Source: LevelDB's `util/bloom.cc`, `util/hash.cc`,
//! `table/filter_block.cc`; spec: docs/format/table.md.
mod block;
mod bloom;

pub use block::{FilterBlock, FilterBlockBuilder};
pub use bloom::Bloom;
use std::sync::Arc;

/// A kind of filter. What it writes under a name must not change for as long as it uses the name.
pub trait FilterPolicy: Send + Sync {
    /// Part of the meta block's name.
    fn name(&self) -> &str;
    /// Appends a filter that admits all of `keys` (some may repeat) to `out`.
    fn create(&self, keys: &[&[u8]], out: &mut Vec<u8>);
    /// Whether `key` may be among the keys of `filter`, which may be any bytes. False is certain.
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool;
    /// The same as a policy of hashes, if that is what it is: for the filter of a whole table only those are gathered then.
    fn by_hash(self: Arc<Self>) -> Option<Arc<dyn HashPolicy>> {
        None
    }
}

/// A kind of filter that needs no more of each key than 32 bits of hash, as LevelDB's does.
pub trait HashPolicy: Send + Sync {
    /// What it needs of `key`.
    fn hash(&self, key: &[u8]) -> u32;
    /// As [`FilterPolicy::create`], of keys that have `hashes`; neighbours of the same hash come as one.
    fn create_of(&self, hashes: &[u32], out: &mut Vec<u8>);
}

/// Key of LevelDB's filter block in the metaindex.
pub fn block_meta_name(policy: &dyn FilterPolicy) -> String {
    format!("filter.{}", policy.name())
}

/// Key of our filter of a whole table in the metaindex.
pub fn table_meta_name(policy: &dyn FilterPolicy) -> String {
    format!("terrace.filter.{}", policy.name())
}
