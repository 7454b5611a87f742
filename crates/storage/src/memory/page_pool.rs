//! A pool of memtable pages: the pages of one memtable are reused by the next. Without the pool
//! the kernel would zero every new page at its first use, in a page fault. With values of 1 KiB
//! these page faults take a quarter of the time of a put.
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use terrace_vfs::Pages;

/// Maximum number of bytes in the pool. In addition, the pool never has more bytes than all
/// memtables had at any one time.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// The pages that no memtable uses.
#[derive(Default)]
pub(crate) struct PagePool(Mutex<Kept>); // a leaf lock

#[derive(Default)]
struct Kept {
    pages: Vec<Pages>,
    bytes: usize,
    /// The smallest number of bytes in the pool since the last call of [`PagePool::rest`]. In that
    /// time no memtable needed these bytes.
    unused: usize,
}

impl PagePool {
    pub fn take(&self, bytes: NonZeroUsize) -> Option<Pages> {
        let mut kept = self.0.lock();
        let at = kept.pages.iter().rposition(|pages| pages.bytes() == bytes)?;
        kept.bytes -= bytes.get();
        kept.unused = kept.unused.min(kept.bytes);
        Some(kept.pages.swap_remove(at))
    }

    /// Puts `pages` into the pool for reuse. Returns them if the pool is full.
    pub fn keep(&self, pages: Pages) -> Result<(), Pages> {
        let mut kept = self.0.lock();
        if kept.bytes + pages.bytes().get() > BYTES_MAX {
            return Err(pages);
        }
        kept.bytes += pages.bytes().get();
        kept.pages.push(pages);
        Ok(())
    }

    /// Removes the pages that no memtable used since the last call, and returns them.
    pub fn rest(&self) -> Vec<Pages> {
        let mut kept = self.0.lock();
        let mut left = kept.unused;
        let goes = |pages: &mut Pages| {
            let fits = pages.bytes().get() <= left;
            left -= if fits { pages.bytes().get() } else { 0 };
            fits
        };
        let gone: Vec<Pages> = kept.pages.extract_if(.., goes).collect();
        kept.bytes -= kept.unused - left;
        kept.unused = kept.bytes;
        gone
    }
}
