//! The memory budget of a store. It counts memtables, index and filter blocks of open tables,
//! read-ahead of cursors, and cached data blocks. Cached data blocks get the memory that the other
//! three leave.
//!
//! There are two limits. The first, `block_cache_size`, limits cached data blocks together with
//! the part of index and filter blocks above [`TAILS_FREE_BYTES`]. Without this free allowance a
//! small cache would evict the indexes that it needs to find data blocks. The limit never closes a
//! table: to reopen a table takes as long as hundreds of block reads, and a store slightly over
//! the limit would reopen a table in every other read.
//!
//! The second limit, `memory_budget`, is optional and limits all memory together. Data
//! blocks are evicted first, if necessary all of them. Index and filter blocks may take at most
//! half of the memory that memtables leave. A table for which there is no room is opened with a
//! small part of its index, and lookups read the rest from the file. If memtables grow, the least
//! recently used tables with whole indexes are closed, and are opened so when they are used next.
//! Some indexes can only be in memory as a whole, such as compressed ones. Their tables stay open
//! even if they take more than the share.
//! Read-ahead may take an eighth of the limit. Beyond it, every cursor reads ahead as little as
//! possible.
//!
//! The budget does not count the block at a cursor's position, buffers of files that are being
//! written, the names of tables, and unused memory of the allocator. An eighth of the second limit
//! is left for these.
use super::{
    block_cache::BlockCache, buffer_pool::Buffers, page_pool::PagePool, residency::Residency, sampling::is_sample,
};
use crate::StorageConfig;
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use terrace_vfs::Process;

/// Bytes of index and filter blocks that are not charged to `block_cache_size`.
const TAILS_FREE_BYTES: u64 = 32 << 20;
/// The capacity of the block cache is increased only in steps of at least this number of bytes.
const GRAIN_BYTES: u64 = 64 << 10;

/// One in this many parts of the memory budget is left for memory that is not counted.
const UNCOUNTED_PART: u64 = 8;

/// The kinds of counted memory other than the block cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The memory of memtables, including those that only a reader still uses, and pages kept for
    /// the next memtables.
    Memtables,
    /// Index and filter blocks of open tables.
    Tails,
    /// The memory of the read-ahead of cursors, including the cursors of compactions, and buffers
    /// kept for the next cursors.
    Cursors,
}

/// The memory of a store.
pub struct Budget {
    block_cache_size: u64,
    /// The process whose memory is counted. A forked child process counts nothing, because a lock
    /// that was held at the fork stays locked forever in the child.
    process: Process,
    /// The limit for all memory, in bytes; `u64::MAX` if there is none.
    memory_budget: u64,
    /// The limit for all counted memory, in bytes.
    counted_max: u64,
    pub(crate) blocks: BlockCache,
    pub(crate) residency: Residency,
    /// The estimate for filters that are read through mappings.
    pub(crate) filter_residency: Residency,
    pub(crate) spare: PagePool,
    pub(crate) buffers: Buffers,
    /// The present division of the memory. A thread that holds this lock takes no other locks
    /// except those of the block cache.
    shares: Mutex<Shares>,
}

/// The division of the memory: the bytes of each [`Holder`], and the capacity of the block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shares {
    /// Number of bytes of each [`Holder`], in the order of the enum.
    held: [u64; 3],
    /// The capacity of the block cache in bytes.
    granted: u64,
}

impl Budget {
    /// Makes the budget that `setup` describes.
    pub fn new(setup: &StorageConfig) -> Arc<Budget> {
        let memory_budget = setup.memory_budget.unwrap_or(u64::MAX);
        let budget = Budget {
            block_cache_size: setup.block_cache_size,
            process: Process::current(),
            memory_budget,
            counted_max: memory_budget - memory_budget / UNCOUNTED_PART,
            blocks: BlockCache::new(setup),
            residency: Residency::default(),
            filter_residency: Residency::default(),
            spare: PagePool::default(),
            buffers: Buffers::default(),
            shares: Mutex::new(Shares { held: [0; 3], granted: setup.block_cache_size }),
        };
        budget.fit(&mut budget.shares.lock());
        Arc::new(budget)
    }

    /// Returns the bytes of each [`Holder`], in the order of the enum, and the bytes of cached
    /// blocks.
    pub fn held(&self) -> ([u64; 3], u64) {
        let shares = self.shares.lock();
        (shares.held, self.blocks.byte_len())
    }

    /// Returns the number of reads of single data blocks from storage that fill the cache.
    pub fn storage_reads(&self) -> u64 {
        self.blocks.storage_reads()
    }

    /// Returns the limit for all memory; `None` if there is none.
    pub fn limit(&self) -> Option<u64> {
        Some(self.memory_budget).filter(|bytes| *bytes < u64::MAX)
    }

    /// Returns a new counter of the bytes of `holder`. It begins with 0 bytes.
    pub fn hold(self: &Arc<Budget>, holder: Holder) -> Held {
        Held { budget: self.clone(), holder, bytes: AtomicU64::new(0) }
    }

    /// Returns whether index and filter blocks take more than their share.
    pub(crate) fn tails_exceed(&self) -> bool {
        !self.fits_tails(0)
    }

    /// Returns whether `bytes` more of index and filter blocks are within their share: half of the
    /// memory that memtables leave, at least an eighth of `memory_budget`.
    pub(crate) fn fits_tails(&self, bytes: u64) -> bool {
        let [memtables, tails, _] = self.shares.lock().held;
        tails.saturating_add(bytes) <= self.tails_max(memtables)
    }

    fn tails_max(&self, memtables: u64) -> u64 {
        (self.counted_max.saturating_sub(memtables) / 2).max(self.memory_budget / 8)
    }

    /// Returns whether `bytes` more of index and filter blocks would leave a quarter of their share
    /// free. Most calls return false at once, so that a caller may ask at every read.
    pub(crate) fn has_ample_room_for_tails(&self, bytes: u64) -> bool {
        is_sample() && {
            let [memtables, tails, _] = self.shares.lock().held;
            tails.saturating_add(bytes) <= self.tails_max(memtables) / 4 * 3
        }
    }

    /// Returns whether `bytes` more of read-ahead are within the share of cursors, an eighth of
    /// `memory_budget`. Beyond it, cursors read ahead as little as possible.
    pub(crate) fn fits_read_ahead(&self, bytes: u64) -> bool {
        let [_, _, cursors] = self.shares.lock().held;
        cursors.saturating_add(bytes) <= self.memory_budget / 8
    }

    /// Returns whether `bytes` more of unused pages are within the share of memtables, half of
    /// `memory_budget`.
    pub(crate) fn fits_spare_pages(&self, bytes: u64) -> bool {
        let [memtables, ..] = self.shares.lock().held;
        memtables.saturating_add(bytes) <= self.memory_budget / 2
    }

    /// Returns whether the calling process opened the store, so that it may use pooled memory.
    pub(crate) fn is_ours(&self) -> bool {
        self.process.is_current()
    }

    pub(crate) fn change(&self, holder: Holder, bytes: i64) {
        if !self.is_ours() {
            return;
        }
        let mut shares = self.shares.lock();
        let held = &mut shares.held[holder as usize];
        *held = held.saturating_add_signed(bytes);
        self.fit(&mut shares);
    }

    /// Sets the capacity of the block cache to the memory that the other holders leave.
    fn fit(&self, shares: &mut Shares) {
        let [memtables, tails, cursors] = shares.held;
        let charged = tails.saturating_sub(TAILS_FREE_BYTES);
        let own = self.block_cache_size.saturating_sub(charged).max(self.block_cache_size / 4);
        let left = own.min(self.counted_max.saturating_sub(memtables + tails + cursors));
        if left < shares.granted || left - shares.granted >= GRAIN_BYTES {
            shares.granted = if left < own { left - left % GRAIN_BYTES } else { left };
            self.blocks.resize(shares.granted);
        }
    }
}

/// A counter of memory. Its bytes are subtracted from the budget when it is dropped.
pub struct Held {
    budget: Arc<Budget>,
    holder: Holder,
    bytes: AtomicU64,
}

impl Held {
    /// Returns the budget that counts this memory.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Adds `bytes` to the counted bytes.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.budget.change(self.holder, bytes as i64);
    }

    /// Sets the counted bytes to `bytes`.
    pub fn set(&mut self, bytes: u64) {
        let before = std::mem::replace(self.bytes.get_mut(), bytes);
        if before != bytes {
            self.budget.change(self.holder, bytes as i64 - before as i64);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_format::block::{Block, BlockBuilder};

    fn budget(block_cache_size: u64, memory_budget: Option<u64>) -> Arc<Budget> {
        Budget::new(&StorageConfig { block_cache_size, memory_budget, ..StorageConfig::default() })
    }

    /// Inserts more blocks than fit into the cache. Returns the number of cached bytes afterwards.
    fn filled(budget: &Budget) -> u64 {
        let mut builder = BlockBuilder::new(16);
        builder.add(b"key", &[7; 4000]);
        let block = Arc::new(Block::new(builder.finish().to_vec()).unwrap());
        (0..1000).for_each(|offset| budget.blocks.insert((0, offset), block.clone(), true));
        budget.held().1
    }

    #[test]
    fn data_blocks_yield_to_indexes_but_keep_a_quarter() {
        let budget = budget(1 << 20, None);
        assert!((900 << 10..=1 << 20).contains(&filled(&budget)));
        for (tails, left) in [(TAILS_FREE_BYTES, 1024), (TAILS_FREE_BYTES + (512 << 10), 512), (1 << 40, 256)] {
            let mut held = budget.hold(Holder::Tails);
            held.set(tails);
            assert!(budget.held().1 <= left << 10);
            assert!(filled(&budget) > (left - 128) << 10, "{left} KiB");
            assert!(!budget.tails_exceed(), "no table is closed");
        }
        assert!(filled(&budget) > 900 << 10, "what was held is given back");
    }

    #[test]
    fn all_holders_together_stay_within_the_memory_budget() {
        let budget = budget(3 << 20, Some(4 << 20));
        let sum = || {
            let (held, blocks) = budget.held();
            held.iter().sum::<u64>() + blocks
        };
        assert!(filled(&budget) > 2 << 20);
        let (memtable, mut cursor) = (budget.hold(Holder::Memtables), budget.hold(Holder::Cursors));
        for step in 0..25 {
            memtable.add(128 << 10);
            cursor.set(if step % 2 == 0 { 200 << 10 } else { 0 });
            assert!(sum() <= 7 << 19, "step {step}: {}", sum());
            filled(&budget);
            assert!(sum() <= 7 << 19, "step {step}: {}", sum());
        }
        let mut tails = budget.hold(Holder::Tails);
        tails.set(500 << 10);
        assert!(!budget.tails_exceed(), "an eighth of the limit");
        tails.set(600 << 10);
        assert!(budget.tails_exceed(), "half of what memtables leave is 192 KiB");
        drop((memtable, tails));
        assert!(filled(&budget) > 2 << 20);
    }

    #[test]
    fn memory_is_returned_when_its_holder_is_dropped() {
        let budget = budget(1 << 20, Some(2 << 20));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let budget = &budget;
                scope.spawn(move || {
                    for step in 0..1000 {
                        let held = budget.hold(Holder::Cursors);
                        held.add(thread << 18 | step);
                        assert!(budget.held().1 <= 1 << 20);
                    }
                });
            }
        });
        assert_eq!(budget.held().0, [0; 3]);
        assert!(filled(&budget) > 900 << 10);
    }
}
