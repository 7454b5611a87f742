//! A pool of memtable pages, reused by one memtable after the other. The kernel zeroes every page
//! that it hands out, at the price of a page fault: for values of 1 KiB that was a quarter of the
//! cost of a put.
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use terrace_vfs::Pages;

/// The most bytes kept. They never exceed the bytes that memtables had at one time.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// The unused pages.
#[derive(Default)]
pub(crate) struct PagePool(Mutex<Kept>); // a leaf lock

#[derive(Default)]
struct Kept {
    pages: Vec<Pages>,
    bytes: usize,
    /// The fewest bytes since the last [`PagePool::rest`].
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

    /// Keeps `pages`; returns them if there is no room.
    pub fn keep(&self, pages: Pages) -> Result<(), Pages> {
        let mut kept = self.0.lock();
        if kept.bytes + pages.bytes().get() > BYTES_MAX {
            return Err(pages);
        }
        kept.bytes += pages.bytes().get();
        kept.pages.push(pages);
        Ok(())
    }

    /// Takes out the pages that were not needed since the last call.
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
