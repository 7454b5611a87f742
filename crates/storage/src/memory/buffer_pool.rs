//! Buffers that cursors have finished with, kept for the next cursors.
use parking_lot::Mutex;

/// The most buffers kept.
pub(crate) const KEPT_MAX: usize = 16;

/// Buffers that nobody uses.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Kept>); // a leaf

#[derive(Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    /// The fewest there were since the last [`Buffers::rest`].
    unused: usize,
}

impl Buffers {
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut kept = self.0.lock();
        let buffer = kept.buffers.pop();
        kept.unused = kept.unused.min(kept.buffers.len());
        buffer
    }

    /// Whether there was room for it.
    pub fn keep(&self, buffer: Vec<u8>) -> bool {
        let mut kept = self.0.lock();
        let fits = kept.buffers.len() < KEPT_MAX;
        if fits {
            kept.buffers.push(buffer);
        }
        fits
    }

    /// Takes out what nobody needed since the last call.
    pub fn rest(&self) -> Vec<Vec<u8>> {
        let mut kept = self.0.lock();
        let unused = kept.unused;
        let gone = kept.buffers.drain(..unused).collect();
        kept.unused = kept.buffers.len();
        gone
    }
}
