//! A pool of read-ahead buffers of equal size. A table cursor returns its buffer to the pool, and
//! the next cursor takes the buffer from it.
//!
//! A compaction reads many SSTables one after the other. Without the pool, the cursor of each
//! SSTable would allocate a new buffer. In the heap these buffers would be between indexes and
//! filters that stay in memory for long. The heap would become fragmented, and its unused gaps
//! would become larger than all memory in use.
use crate::{Budget, Held, Holder, Result};
use std::sync::Arc;

/// Size of a buffer in bytes.
pub(super) const BYTES: usize = 256 << 10;

/// The read-ahead buffer of one cursor. Blocks may still refer to the buffer's memory after the
/// cursor has moved on. When this value is dropped, the buffer returns to the pool.
pub(super) struct Buffer {
    bytes: Arc<Vec<u8>>,
    held: Held,
}

impl Buffer {
    /// Takes a buffer from the pool, or allocates one.
    pub fn of(budget: &Arc<Budget>) -> Buffer {
        let mut held = budget.hold(Holder::Cursors);
        let pooled = budget.buffers.take();
        let was_pooled = pooled.is_some();
        // Beyond the share of cursors, a buffer is only as large as the bytes read into it.
        let new = || Vec::with_capacity(if budget.fits_read_ahead(BYTES as u64) { BYTES } else { 0 });
        let bytes = pooled.unwrap_or_else(new);
        held.set(bytes.capacity() as u64);
        if was_pooled {
            budget.change(Holder::Cursors, -(bytes.capacity() as i64));
        }
        Buffer { bytes: Arc::new(bytes), held }
    }

    /// Returns the bytes that the last call of [`fill`](Buffer::fill) read.
    pub fn filled(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// Returns the number of bytes that the buffer can hold without another allocation.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Replaces the contents of the buffer by the bytes that `read` reads, at most [`BYTES`]. If
    /// blocks still refer to the old contents, these stay in memory, and the cursor gets another
    /// buffer.
    pub fn fill(&mut self, read: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        if Arc::get_mut(&mut self.bytes).is_none() {
            *self = Buffer::of(self.held.budget());
        }
        let bytes = Arc::get_mut(&mut self.bytes).expect("either new or not shared");
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
        if budget.is_ours() && bytes >= BYTES && budget.fits_read_ahead(0) && budget.buffers.put(buffer) {
            budget.change(Holder::Cursors, bytes as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StorageConfig;
    use crate::memory::POOLED_MAX;

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
    fn a_dropped_buffer_serves_the_next_cursor() {
        let budget = Budget::new(&StorageConfig::default());
        let mut buffers: Vec<Buffer> = (0..POOLED_MAX + 2).map(|_| Buffer::of(&budget)).collect();
        let addresses: Vec<_> = buffers.iter_mut().map(|buffer| filled(buffer, 1)).collect();
        assert_eq!(held(&budget), ((POOLED_MAX + 2) * BYTES) as u64);
        drop(buffers);
        assert_eq!(held(&budget), (POOLED_MAX * BYTES) as u64, "buffers over the limit were freed");
        let mut next = Buffer::of(&budget);
        assert_eq!(held(&budget), (POOLED_MAX * BYTES) as u64, "pooled buffers count already");
        let address = filled(&mut next, 2);
        assert!(addresses.contains(&address) && filled(&mut next, 3) == address);

        let shared = next.filled().clone();
        assert_ne!(filled(&mut next, 4), address);
        assert_eq!((shared[0], next.filled()[0]), (3, 4));
        drop((shared, next));
        (0..2).for_each(|_| budget.rest());
        assert_eq!(held(&budget), 0, "unused buffers are freed");
    }

    #[test]
    fn beyond_the_share_of_cursors_buffers_are_only_as_large_as_their_contents() {
        let budget = Budget::new(&StorageConfig { memory_budget: Some(8 * BYTES as u64), ..StorageConfig::default() });
        let mut large = Buffer::of(&budget);
        filled(&mut large, 1);
        assert_eq!(held(&budget), BYTES as u64);
        let mut small = Buffer::of(&budget);
        filled(&mut small, 1);
        assert!((1000..2000).contains(&(held(&budget) - BYTES as u64)));
        drop((large, small));
        assert_eq!(held(&budget), 0, "a full share keeps no buffers");
    }
}
