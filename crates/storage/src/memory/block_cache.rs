//! The block cache: decompressed data blocks of the open tables of a store. Its size is the memory
//! that the [budget](crate::Budget) has left.
//!
//! After a cache miss, a reader reads the block without holding a lock. Two readers may therefore
//! read the same block at the same time; the cache keeps one of the two copies.
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

/// Identifies a block: the SSTable's [`uid`](BlockCache::new_uid) and the offset of the block.
pub(crate) type BlockKey = (u64, u64);

/// Memory in bytes of a cached block other than the block's contents: its struct, its reference
/// count, its cache entry.
const BLOCK_OVERHEAD_BYTES: u64 = 128;
/// Upper bound for the estimated number of blocks. Above this number, more shards and more ghost
/// entries (keys of evicted blocks) bring no benefit.
const BLOCKS_ESTIMATE_MAX: u64 = 1 << 20;

pub(crate) struct BlockCache {
    blocks: Cache<BlockKey, CachedBlock, ByBytes, Mix>,
    next_uid: AtomicU64,
    storage_reads: AtomicU64,
}

/// A cached block, and whether its checksum was verified. A compaction uses only verified blocks,
/// because it would otherwise write corrupt bytes under a new checksum.
type CachedBlock = (Arc<Block>, bool);

#[derive(Clone)]
struct ByBytes;

impl Weighter<BlockKey, CachedBlock> for ByBytes {
    fn weight(&self, _: &BlockKey, (block, _): &CachedBlock) -> u64 {
        block.byte_len() as u64 + BLOCK_OVERHEAD_BYTES
    }
}

impl BlockCache {
    /// Creates a cache of `setup.block_cache_size` bytes.
    pub fn new(setup: &StorageConfig) -> BlockCache {
        let estimate = (setup.block_cache_size / setup.block_size.max(1) as u64).clamp(1, BLOCKS_ESTIMATE_MAX);
        let blocks = Cache::with(
            estimate as usize,
            setup.block_cache_size,
            ByBytes,
            Mix::default(),
            DefaultLifecycle::default(),
        );
        BlockCache { blocks, next_uid: AtomicU64::new(0), storage_reads: AtomicU64::new(0) }
    }

    /// Returns a number that identifies one opening of one table. The number is a part of the cache
    /// key, so a lookup never finds blocks of an earlier file of the same name.
    pub fn new_uid(&self) -> u64 {
        self.next_uid.fetch_add(1, Relaxed)
    }

    /// Returns the block with this key if it is cached. If `verified` is set, a block is returned
    /// only if its checksum was verified.
    pub fn get(&self, key: BlockKey, verified: bool) -> Option<Arc<Block>> {
        self.blocks.get(&key).filter(|(_, is_verified)| *is_verified || !verified).map(|(block, _)| block)
    }

    pub fn insert(&self, key: BlockKey, block: Arc<Block>, verified: bool) {
        self.blocks.insert(key, (block, verified));
    }

    /// Counts a read from storage for a block that was not cached.
    pub fn count_storage_read(&self) {
        self.storage_reads.fetch_add(1, Relaxed);
    }

    /// Returns the number of reads from storage for blocks that were not cached.
    pub fn storage_reads(&self) -> u64 {
        self.storage_reads.load(Relaxed)
    }

    /// Returns the total size in bytes of the cached blocks.
    pub fn byte_len(&self) -> u64 {
        self.blocks.weight()
    }

    /// Sets the capacity to `bytes`.
    pub fn resize(&self, bytes: u64) {
        self.blocks.set_capacity(bytes);
    }
}

/// A hash function for [`BlockKey`]. Both numbers of a key are made by this process, so no user
/// input can force collisions.
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
    fn blocks_are_cached_up_to_the_capacity() {
        let cache = BlockCache::new(&StorageConfig { block_cache_size: 64 << 10, ..StorageConfig::default() });
        let (a, b) = (cache.new_uid(), cache.new_uid());
        cache.insert((a, 0), block(10), false);
        assert!(cache.get((a, 0), false).is_some());
        assert!(cache.get((a, 0), true).is_none(), "the block was not verified");
        cache.insert((a, 0), block(10), true);
        assert!(cache.get((a, 0), true).is_some() && cache.get((a, 0), false).is_some());
        assert!(cache.get((b, 0), false).is_none(), "each opening has keys of its own");
        for offset in 1..1000 {
            cache.insert((a, offset), block(4000), true);
        }
        assert!(cache.blocks.weight() <= 64 << 10, "{} bytes", cache.blocks.weight());
    }

    #[test]
    fn a_cache_of_capacity_zero_keeps_no_block() {
        let cache = BlockCache::new(&StorageConfig { block_cache_size: 0, ..StorageConfig::default() });
        cache.insert((0, 0), block(10), true);
        assert!(cache.get((0, 0), true).is_none());
    }
}
