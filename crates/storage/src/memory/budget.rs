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
//! The second limit, `memory_budget`, is optional and limits all counted memory together. Data
//! blocks are evicted first, if necessary all of them. Index and filter blocks may take at most
//! half of the memory that memtables leave. If they take more, the least recently used tables are
//! closed, even if data blocks are still cached.
//!
//! The budget does not count the block at a cursor's position, buffers of files that are being
//! written, and the names of tables.
use super::{block_cache::BlockCache, buffer_pool::Buffers, page_pool::PagePool, residency::Residency};
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
    /// The limit for all counted memory, in bytes; `u64::MAX` if there is none.
    memory_budget: u64,
    pub(crate) blocks: BlockCache,
    pub(crate) residency: Residency,
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
        let budget = Budget {
            block_cache_size: setup.block_cache_size,
            process: Process::current(),
            memory_budget: setup.memory_budget.unwrap_or(u64::MAX),
            blocks: BlockCache::new(setup),
            residency: Residency::default(),
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

    /// Returns the limit for all memory; `None` if there is none.
    pub fn limit(&self) -> Option<u64> {
        Some(self.memory_budget).filter(|bytes| *bytes < u64::MAX)
    }

    /// Returns a new counter of the bytes of `holder`. It begins with 0 bytes.
    pub fn hold(self: &Arc<Budget>, holder: Holder) -> Held {
        Held { budget: self.clone(), holder, bytes: AtomicU64::new(0) }
    }

    /// Returns whether index and filter blocks take more than their share: half of the part of
    /// `memory_budget` that memtables leave.
    pub(crate) fn tails_exceed(&self) -> bool {
        let [memtables, tails, _] = self.shares.lock().held;
        tails > self.memory_budget.saturating_sub(memtables) / 2
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
        let left = own.min(self.memory_budget.saturating_sub(memtables + tails + cursors));
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
        for step in 0..30 {
            memtable.add(128 << 10);
            cursor.set(if step % 2 == 0 { 200 << 10 } else { 0 });
            assert!(sum() <= 4 << 20, "step {step}: {}", sum());
            filled(&budget);
            assert!(sum() <= 4 << 20, "step {step}: {}", sum());
        }
        let mut tails = budget.hold(Holder::Tails);
        tails.set(200 << 10);
        assert!(budget.tails_exceed(), "half of what memtables leave is 128 KiB");
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
