//! The block cache: data blocks of every open table of a store, decompressed, by bytes.
//!
//! A miss reads without holding anything; two readers may then read the same block, and one copy stays.
use crate::Setup;
use quick_cache::{Weighter, sync::Cache};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use terrace_format::block::Block;

/// Which block: the table's [`uid`](BlockCache::new_uid), and the block's offset in it.
pub(crate) type BlockKey = (u64, u64);

/// More shards and ghosts than for this many blocks gain nothing.
const BLOCKS_ESTIMATE_MAX: u64 = 1 << 20;

pub(crate) struct BlockCache {
    blocks: Cache<BlockKey, Arc<Block>, ByBytes>,
    next_uid: AtomicU64,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<BlockKey, Arc<Block>> for ByBytes {
    fn weight(&self, _: &BlockKey, block: &Arc<Block>) -> u64 {
        // At least one, as a weightless entry would never be evicted.
        (block.byte_len() as u64).max(1)
    }
}

impl BlockCache {
    /// A cache of `setup.cache_bytes`.
    pub fn new(setup: &Setup) -> BlockCache {
        let estimate = (setup.cache_bytes / setup.block_bytes.max(1) as u64).clamp(1, BLOCKS_ESTIMATE_MAX);
        let blocks = Cache::with_weighter(estimate as usize, setup.cache_bytes, ByBytes);
        BlockCache { blocks, next_uid: AtomicU64::new(0) }
    }

    /// A number for one opening of one table, so that blocks of an earlier file of the same name are never hit.
    pub fn new_uid(&self) -> u64 {
        self.next_uid.fetch_add(1, Relaxed)
    }

    pub fn get(&self, key: BlockKey) -> Option<Arc<Block>> {
        self.blocks.get(&key)
    }

    pub fn insert(&self, key: BlockKey, block: Arc<Block>) {
        self.blocks.insert(key, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_format::block::BlockBuilder;

    fn block(value_bytes: usize) -> Arc<Block> {
        let mut builder = BlockBuilder::new(16);
        builder.add(b"key", &vec![7; value_bytes]);
        Arc::new(Block::new(builder.finish().to_vec()).unwrap())
    }

    #[test]
    fn holds_what_was_read_up_to_its_size() {
        let cache = BlockCache::new(&Setup { cache_bytes: 64 << 10, ..Setup::default() });
        let (a, b) = (cache.new_uid(), cache.new_uid());
        cache.insert((a, 0), block(10));
        assert!(cache.get((a, 0)).is_some());
        assert!(cache.get((b, 0)).is_none(), "another opening shares nothing");
        for offset in 1..1000 {
            cache.insert((a, offset), block(4000));
        }
        assert!(cache.blocks.weight() <= 64 << 10, "{} bytes", cache.blocks.weight());
    }

    #[test]
    fn a_cache_of_nothing_keeps_nothing() {
        let cache = BlockCache::new(&Setup { cache_bytes: 0, ..Setup::default() });
        cache.insert((0, 0), block(10));
        assert!(cache.get((0, 0)).is_none());
    }
}
