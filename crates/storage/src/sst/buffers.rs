//! Buffers that cursors read ahead into, all of one size, handed from one to the next. Grown anew by each table that a compaction
//! reads, among indexes and filters that stay, they left holes in the heap that were larger than all that was in use.
use crate::{Budget, Held, Holder, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// Bytes of a buffer.
pub(super) const BYTES: usize = 256 << 10;
/// Buffers kept for cursors to come.
const KEPT_MAX: usize = 16;

/// Buffers that nobody uses.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>); // a leaf

impl Buffers {
    fn take(&self) -> Option<Vec<u8>> {
        self.0.lock().pop()
    }

    /// Whether there was room for it.
    fn keep(&self, buffer: Vec<u8>) -> bool {
        let mut kept = self.0.lock();
        let fits = kept.len() < KEPT_MAX;
        if fits {
            kept.push(buffer);
        }
        fits
    }
}

/// A buffer of one cursor's, whose blocks may still look at it when the cursor has gone on. Dropped, it is kept for the next one.
pub(super) struct Buffer {
    bytes: Arc<Vec<u8>>,
    held: Held,
}

impl Buffer {
    /// One that was kept, or a new one.
    pub fn of(budget: &Arc<Budget>) -> Buffer {
        let mut held = budget.hold(Holder::Cursors);
        held.set(BYTES as u64);
        let kept = budget.buffers.take();
        if kept.is_some() {
            budget.change(Holder::Cursors, -(BYTES as i64));
        }
        Buffer { bytes: Arc::new(kept.unwrap_or_else(|| Vec::with_capacity(BYTES))), held }
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
        read(bytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let budget = self.held.budget();
        // Whoever bounds all memory wants it for blocks rather.
        if budget.limit().is_none()
            && let Some(buffer) = Arc::into_inner(std::mem::take(&mut self.bytes))
            && budget.buffers.keep(buffer)
        {
            budget.change(Holder::Cursors, BYTES as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setup;

    fn filled(buffer: &mut Buffer, with: u8) -> *const u8 {
        let fill = |bytes: &mut Vec<u8>| {
            bytes.clear();
            bytes.resize(1000, with);
            Ok(())
        };
        buffer.fill(fill).unwrap();
        buffer.filled().as_ptr()
    }

    #[test]
    fn what_one_cursor_leaves_serves_the_next() {
        let budget = Budget::new(&Setup::default());
        let held = || budget.held().0[Holder::Cursors as usize];
        let mut buffers: Vec<Buffer> = (0..KEPT_MAX + 2).map(|_| Buffer::of(&budget)).collect();
        let places: Vec<_> = buffers.iter_mut().map(|buffer| filled(buffer, 1)).collect();
        assert_eq!(held(), ((KEPT_MAX + 2) * BYTES) as u64);
        drop(buffers);
        assert_eq!(held(), (KEPT_MAX * BYTES) as u64, "the rest went back");
        let mut next = Buffer::of(&budget);
        assert_eq!(held(), (KEPT_MAX * BYTES) as u64, "it was counted before");
        let place = filled(&mut next, 2);
        assert!(places.contains(&place) && filled(&mut next, 3) == place);

        let looked_at = next.filled().clone();
        assert_ne!(filled(&mut next, 4), place);
        assert_eq!((looked_at[0], next.filled()[0]), (3, 4));
    }

    #[test]
    fn whoever_bounds_all_memory_has_none_kept() {
        let budget = Budget::new(&Setup { memory_bytes: Some(64 << 20), ..Setup::default() });
        drop(Buffer::of(&budget));
        assert_eq!(budget.held().0[Holder::Cursors as usize], 0);
    }
}
