//! Pages for memtables, taken from the page pool of a store's memory budget.
use super::budget::{Budget, Holder};
use std::{io, num::NonZeroUsize, ops::Deref, sync::Arc};
use terrace_vfs::Pages;

/// Pages from a page pool. They return to the pool when this value is dropped. Their initial
/// contents are undefined.
pub struct PooledPages {
    /// The pages; `None` only after this value was dropped.
    pages: Option<Pages>,
    budget: Arc<Budget>,
}

impl Deref for PooledPages {
    type Target = Pages;

    fn deref(&self) -> &Pages {
        self.pages.as_ref().expect("there until dropped")
    }
}

impl Drop for PooledPages {
    fn drop(&mut self) {
        let mut pages = self.pages.take().expect("dropped once");
        pages.spoil();
        let bytes = pages.bytes().get();
        let is_kept = self.budget.is_ours() && self.budget.fits_spare_pages(bytes as u64);
        if is_kept && self.budget.spare.keep(pages).is_ok() {
            self.budget.change(Holder::Memtables, bytes as i64);
        }
    }
}

impl Budget {
    /// Returns pages of at least `bytes` bytes for a memtable. The memtable adds these bytes to the
    /// memory budget itself.
    ///
    /// # Errors
    /// The kernel cannot allocate the memory.
    pub fn lend(self: &Arc<Budget>, bytes: NonZeroUsize) -> io::Result<PooledPages> {
        let kept = self.spare.take(bytes);
        if kept.is_some() {
            self.change(Holder::Memtables, -(bytes.get() as i64));
        }
        let pages = kept.map_or_else(|| Pages::new(bytes), Ok)?;
        Ok(PooledPages { pages: Some(pages), budget: self.clone() })
    }

    /// Frees all pages that no memtable uses, and all buffers that no cursor uses.
    pub fn empty(&self) {
        self.rest();
        self.rest(); // the second call frees everything, because nothing was used between the two
    }

    /// Frees the pages that no memtable has used since the last call of this method, and the
    /// buffers that no cursor has used since then.
    pub fn rest(&self) {
        let (pages, buffers) = (self.spare.rest(), self.buffers.rest());
        let bytes: usize = pages.iter().map(|pages| pages.bytes().get()).sum();
        self.change(Holder::Memtables, -(bytes as i64));
        let bytes: usize = buffers.iter().map(Vec::capacity).sum();
        self.change(Holder::Cursors, -(bytes as i64));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::page_pool::BYTES_MAX, *};
    use crate::StorageConfig;

    const BYTES: NonZeroUsize = NonZeroUsize::new(1 << 20).unwrap();

    fn held(budget: &Budget) -> u64 {
        budget.held().0[Holder::Memtables as usize]
    }

    #[test]
    fn pages_are_reused_until_they_were_unused_for_a_while() {
        let budget = Budget::new(&StorageConfig::default());
        let lent: Vec<PooledPages> = (0..3).map(|_| budget.lend(BYTES).unwrap()).collect();
        let starts: Vec<_> = lent.iter().map(|pages| pages.start()).collect();
        drop(lent);
        assert_eq!(held(&budget), 3 << 20, "what is kept is counted");
        budget.rest();
        let again = budget.lend(BYTES).unwrap();
        assert!(starts.contains(&again.start()));
        assert!(budget.lend(NonZeroUsize::new(1 << 19).unwrap()).unwrap().bytes().get() == 1 << 19, "not of this size");
        assert_eq!(held(&budget), (2 << 20) + (1 << 19));
        drop(again);
        budget.rest(); // two of the first three were not needed
        assert_eq!(held(&budget), (1 << 20) + (1 << 19));
        budget.rest();
        assert_eq!(held(&budget), 0);
        drop(budget.lend(BYTES));
        budget.empty();
        assert_eq!(held(&budget), 0);
    }

    #[test]
    fn the_pool_is_bounded() {
        let budget = Budget::new(&StorageConfig::default());
        drop((0..100).map(|_| budget.lend(BYTES).unwrap()).collect::<Vec<_>>());
        assert_eq!(held(&budget), BYTES_MAX as u64);
        let bounded = Budget::new(&StorageConfig { memory_budget: Some(8 << 20), ..StorageConfig::default() });
        drop((0..100).map(|_| bounded.lend(BYTES).unwrap()).collect::<Vec<_>>());
        assert_eq!(held(&bounded), 4 << 20, "half of the memory budget");
    }
}
