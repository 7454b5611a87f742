//! A pool of read-ahead buffers. Each cursor returns its buffer, and the next cursor reuses it.
use parking_lot::Mutex;

/// Maximum number of buffers in the pool.
pub(crate) const POOLED_MAX: usize = 16;

/// The buffers that no cursor uses.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Pool>); // a leaf lock

#[derive(Default)]
struct Pool {
    buffers: Vec<Vec<u8>>,
    /// The smallest number of buffers in the pool since the last call of [`Buffers::rest`]. In that
    /// time no cursor needed these buffers.
    unused: usize,
}

impl Buffers {
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut pool = self.0.lock();
        let buffer = pool.buffers.pop();
        pool.unused = pool.unused.min(pool.buffers.len());
        buffer
    }

    /// Puts `buffer` into the pool for reuse. Returns false if the pool is full.
    pub fn put(&self, buffer: Vec<u8>) -> bool {
        let mut pool = self.0.lock();
        let fits = pool.buffers.len() < POOLED_MAX;
        if fits {
            pool.buffers.push(buffer);
        }
        fits
    }

    /// Removes the buffers that no cursor used since the last call, and returns them.
    pub fn rest(&self) -> Vec<Vec<u8>> {
        let mut pool = self.0.lock();
        let unused = pool.unused;
        let gone = pool.buffers.drain(..unused).collect();
        pool.unused = pool.buffers.len();
        gone
    }
}
