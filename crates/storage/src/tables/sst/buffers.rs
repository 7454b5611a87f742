//! Buffers that cursors read ahead into, all of one size, handed from one to the next. Grown anew by each table that a compaction
//! reads, among indexes and filters that stay, they left holes in the heap that were larger than all that was in use.
use crate::{Budget, Held, Holder, Result};
use std::sync::Arc;

/// Bytes of a buffer.
pub(super) const BYTES: usize = 256 << 10;
/// A buffer of one cursor's, whose blocks may still look at it when the cursor has gone on. Dropped, it is kept for the next one.
pub(super) struct Buffer {
    bytes: Arc<Vec<u8>>,
    held: Held,
}

impl Buffer {
    /// One that was kept, or a new one.
    pub fn of(budget: &Arc<Budget>) -> Buffer {
        let mut held = budget.hold(Holder::Cursors);
        let kept = budget.buffers.take();
        let was_kept = kept.is_some();
        // Whoever bounds all memory has no more of it held than is read.
        let bytes = kept.unwrap_or_else(|| Vec::with_capacity(if budget.limit().is_none() { BYTES } else { 0 }));
        held.set(bytes.capacity() as u64);
        if was_kept {
            budget.change(Holder::Cursors, -(bytes.capacity() as i64));
        }
        Buffer { bytes: Arc::new(bytes), held }
    }

    /// What is in it.
    pub fn filled(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// Puts in it what `read` reads, at most [`BYTES`]. Whoever still looks at what was in it keeps that.
    pub fn fill(&mut self, read: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        if Arc::get_mut(&mut self.bytes).is_none() {
            *self = Buffer::of(self.held.budget());
        }
        let bytes = Arc::get_mut(&mut self.bytes).expect("just taken, or nobody else's");
        let filled = read(bytes);
        self.held.set(bytes.capacity() as u64);
        filled
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let budget = self.held.budget();
        let Some(buffer) = Arc::into_inner(std::mem::take(&mut self.bytes)) else { return };
        let bytes = buffer.capacity();
        if budget.is_ours() && bytes >= BYTES && budget.limit().is_none() && budget.buffers.keep(buffer) {
            budget.change(Holder::Cursors, bytes as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StorageConfig;
    use crate::memory::KEPT_MAX;

    fn filled(buffer: &mut Buffer, with: u8) -> *const u8 {
        let fill = |bytes: &mut Vec<u8>| {
            bytes.clear();
            bytes.resize(1000, with);
            Ok(())
        };
        buffer.fill(fill).unwrap();
        buffer.filled().as_ptr()
    }

    fn held(budget: &Budget) -> u64 {
        budget.held().0[Holder::Cursors as usize]
    }

    #[test]
    fn what_one_cursor_leaves_serves_the_next() {
        let budget = Budget::new(&StorageConfig::default());
        let mut buffers: Vec<Buffer> = (0..KEPT_MAX + 2).map(|_| Buffer::of(&budget)).collect();
        let places: Vec<_> = buffers.iter_mut().map(|buffer| filled(buffer, 1)).collect();
        assert_eq!(held(&budget), ((KEPT_MAX + 2) * BYTES) as u64);
        drop(buffers);
        assert_eq!(held(&budget), (KEPT_MAX * BYTES) as u64, "the rest went back");
        let mut next = Buffer::of(&budget);
        assert_eq!(held(&budget), (KEPT_MAX * BYTES) as u64, "it was counted before");
        let place = filled(&mut next, 2);
        assert!(places.contains(&place) && filled(&mut next, 3) == place);

        let looked_at = next.filled().clone();
        assert_ne!(filled(&mut next, 4), place);
        assert_eq!((looked_at[0], next.filled()[0]), (3, 4));
        drop((looked_at, next));
        (0..2).for_each(|_| budget.rest());
        assert_eq!(held(&budget), 0, "nobody needed them");
    }

    #[test]
    fn whoever_bounds_all_memory_has_no_more_held_than_is_read() {
        let budget = Budget::new(&StorageConfig { memory_budget: Some(64 << 20), ..StorageConfig::default() });
        let mut buffer = Buffer::of(&budget);
        filled(&mut buffer, 1);
        assert!((1000..2000).contains(&held(&budget)));
        drop(buffer);
        assert_eq!(held(&budget), 0);
    }
}
