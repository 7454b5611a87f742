//! A pool of read-ahead buffers, reused by one cursor after the other.
use parking_lot::Mutex;

/// The most buffers in the pool.
pub(crate) const POOLED_MAX: usize = 16;

/// The unused buffers.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Pool>); // a leaf lock

#[derive(Default)]
struct Pool {
    buffers: Vec<Vec<u8>>,
    /// The fewest buffers since the last [`Buffers::rest`].
    unused: usize,
}

impl Buffers {
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut pool = self.0.lock();
        let buffer = pool.buffers.pop();
        pool.unused = pool.unused.min(pool.buffers.len());
        buffer
    }

    /// Keeps `buffer`; false if there is no room for it.
    pub fn put(&self, buffer: Vec<u8>) -> bool {
        let mut pool = self.0.lock();
        let fits = pool.buffers.len() < POOLED_MAX;
        if fits {
            pool.buffers.push(buffer);
        }
        fits
    }

    /// Takes out the buffers that were not needed since the last call.
    pub fn rest(&self) -> Vec<Vec<u8>> {
        let mut pool = self.0.lock();
        let unused = pool.unused;
        let gone = pool.buffers.drain(..unused).collect();
        pool.unused = pool.buffers.len();
        gone
    }
}
