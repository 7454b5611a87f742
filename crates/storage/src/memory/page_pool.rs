//! Pages that memtables leave, kept for those to come. The kernel clears each page that it hands out, and takes it by way of
//! a page fault: for values of 1 KiB that was a quarter of what a put cost.
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use terrace_vfs::Pages;

/// Bytes kept at most. There are never more than memtables had at one time.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// Pages that nobody uses.
#[derive(Default)]
pub(crate) struct PagePool(Mutex<Kept>); // a leaf

#[derive(Default)]
struct Kept {
    pages: Vec<Pages>,
    bytes: usize,
    /// The fewest bytes there were since the last [`PagePool::rest`].
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

    /// Returns those that would be too many.
    pub fn keep(&self, pages: Pages) -> Result<(), Pages> {
        let mut kept = self.0.lock();
        if kept.bytes + pages.bytes().get() > BYTES_MAX {
            return Err(pages);
        }
        kept.bytes += pages.bytes().get();
        kept.pages.push(pages);
        Ok(())
    }

    /// Takes out what nobody needed since the last call.
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
