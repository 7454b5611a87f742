//! Data blocks of every open table of a store, decompressed; as many as the
//! [budget](crate::Budget) leaves room for.
//!
//! A miss reads without holding anything; two readers may then read the same block, and one copy
//! stays.
use crate::StorageConfig;
use quick_cache::{
    Weighter,
    sync::{Cache, DefaultLifecycle},
};
use std::{
    hash::{BuildHasher, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use terrace_format::block::Block;

/// Which block: the table's [`uid`](BlockCache::new_uid), and the block's offset in it.
pub(crate) type BlockKey = (u64, u64);

/// What a cached block takes beside its bytes: its frame, its count of owners, its entry in the
/// cache.
const BLOCK_OVERHEAD_BYTES: u64 = 128;
/// More shards and ghosts than for this many blocks gain nothing.
const BLOCKS_ESTIMATE_MAX: u64 = 1 << 20;

pub(crate) struct BlockCache {
    blocks: Cache<BlockKey, Kept, ByBytes, Mix>,
    next_uid: AtomicU64,
}

/// A block, and whether its checksum was verified: a compaction must not give damage a fresh one.
type Kept = (Arc<Block>, bool);

#[derive(Clone)]
struct ByBytes;

impl Weighter<BlockKey, Kept> for ByBytes {
    fn weight(&self, _: &BlockKey, (block, _): &Kept) -> u64 {
        block.byte_len() as u64 + BLOCK_OVERHEAD_BYTES
    }
}

impl BlockCache {
    /// A cache of `setup.block_cache_size`.
    pub fn new(setup: &StorageConfig) -> BlockCache {
        let estimate = (setup.block_cache_size / setup.block_size.max(1) as u64).clamp(1, BLOCKS_ESTIMATE_MAX);
        let blocks = Cache::with(
            estimate as usize,
            setup.block_cache_size,
            ByBytes,
            Mix::default(),
            DefaultLifecycle::default(),
        );
        BlockCache { blocks, next_uid: AtomicU64::new(0) }
    }

    /// A number for one opening of one table, so that blocks of an earlier file of the same name
    /// are never hit.
    pub fn new_uid(&self) -> u64 {
        self.next_uid.fetch_add(1, Relaxed)
    }

    /// The block, if it is here and, where that is asked for, was verified.
    pub fn get(&self, key: BlockKey, verified: bool) -> Option<Arc<Block>> {
        self.blocks.get(&key).filter(|(_, is_verified)| *is_verified || !verified).map(|(block, _)| block)
    }

    pub fn insert(&self, key: BlockKey, block: Arc<Block>, verified: bool) {
        self.blocks.insert(key, (block, verified));
    }

    /// Bytes that the blocks take.
    pub fn byte_len(&self) -> u64 {
        self.blocks.weight()
    }

    /// Holds at most so many bytes from now on.
    pub fn resize(&self, bytes: u64) {
        self.blocks.set_capacity(bytes);
    }
}

/// Hashes a [`BlockKey`]: two numbers of our own making, which nobody can choose to collide.
#[derive(Clone, Default)]
struct Mix(u64);

impl BuildHasher for Mix {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(0)
    }
}

impl Hasher for Mix {
    fn write_u64(&mut self, word: u64) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 / golden ratio
        let product = u128::from(self.0 ^ word ^ ODD) * u128::from(ODD);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn finish(&self) -> u64 {
        self.0
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
        let cache = BlockCache::new(&StorageConfig { block_cache_size: 64 << 10, ..StorageConfig::default() });
        let (a, b) = (cache.new_uid(), cache.new_uid());
        cache.insert((a, 0), block(10), false);
        assert!(cache.get((a, 0), false).is_some());
        assert!(cache.get((a, 0), true).is_none(), "it was not verified");
        cache.insert((a, 0), block(10), true);
        assert!(cache.get((a, 0), true).is_some() && cache.get((a, 0), false).is_some());
        assert!(cache.get((b, 0), false).is_none(), "another opening shares nothing");
        for offset in 1..1000 {
            cache.insert((a, offset), block(4000), true);
        }
        assert!(cache.blocks.weight() <= 64 << 10, "{} bytes", cache.blocks.weight());
    }

    #[test]
    fn a_cache_of_nothing_keeps_nothing() {
        let cache = BlockCache::new(&StorageConfig { block_cache_size: 0, ..StorageConfig::default() });
        cache.insert((0, 0), block(10), true);
        assert!(cache.get((0, 0), true).is_none());
    }
}
