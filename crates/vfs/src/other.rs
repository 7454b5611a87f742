//! What only 64-bit Linux has; here without effect, or refused.
use std::{convert::Infallible, io, ops::Range, path::Path, thread, time::Duration};

/// A file in memory. No file is mapped on this system, so there is no value of this type.
pub struct Mapping(Infallible);

impl Mapping {
    /// Returns the number of mapped bytes.
    pub fn byte_len(&self) -> usize {
        match self.0 {}
    }

    /// Calls `work` with the bytes of the file at `range`.
    pub fn look<T>(&self, _range: Range<u64>, _work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match self.0 {}
    }

    /// Returns whether all pages of `range` are in memory.
    pub fn is_resident(&self, _range: Range<u64>) -> bool {
        match self.0 {}
    }

    /// Starts to load the bytes of the file at `range` into the processor's caches.
    pub fn prefetch(&self, _range: Range<u64>) {
        match self.0 {}
    }

    /// Returns whether the mapping may be used.
    pub fn is_trusted(&self) -> bool {
        match self.0 {}
    }
}

/// Does nothing: background threads have the priority of the others.
pub fn run_in_background() {}

/// Sleeps for `time`, or longer by the granularity of the system's timer.
pub fn precise_sleep(time: Duration) {
    thread::sleep(time);
}

/// Returns `Unsupported`: names are not exchanged atomically here.
pub fn exchange(_one: &Path, _other: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
