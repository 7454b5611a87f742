//! A pool of read-ahead buffers, reused by one cursor after the other.
use parking_lot::Mutex;

/// The most buffers kept.
pub(crate) const KEPT_MAX: usize = 16;

/// The unused buffers.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Kept>); // a leaf lock

#[derive(Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    /// The fewest buffers since the last [`Buffers::rest`].
    unused: usize,
}

impl Buffers {
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut kept = self.0.lock();
        let buffer = kept.buffers.pop();
        kept.unused = kept.unused.min(kept.buffers.len());
        buffer
    }

    /// Keeps `buffer`; false if there is no room for it.
    pub fn keep(&self, buffer: Vec<u8>) -> bool {
        let mut kept = self.0.lock();
        let fits = kept.buffers.len() < KEPT_MAX;
        if fits {
            kept.buffers.push(buffer);
        }
        fits
    }

    /// Takes out the buffers that were not needed since the last call.
    pub fn rest(&self) -> Vec<Vec<u8>> {
        let mut kept = self.0.lock();
        let unused = kept.unused;
        let gone = kept.buffers.drain(..unused).collect();
        kept.unused = kept.buffers.len();
        gone
    }
}
