//! A device that is pulled out: from some request on, every one fails.
use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use terrace_device::{BlockDevice, Error, Result, Stream};

/// `below`, until it is pulled out.
pub struct Yanked {
    below: Arc<dyn BlockDevice>,
    /// Requests that still work.
    left: AtomicU64,
}

impl Yanked {
    /// The first `requests` requests work.
    pub fn new(below: Arc<dyn BlockDevice>, requests: u64) -> Yanked {
        Yanked { below, left: AtomicU64::new(requests) }
    }

    /// How many requests would still work.
    pub fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    fn there(&self, what: &str) -> Result<()> {
        let count = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Relaxed, Relaxed, count) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Io { what: what.into(), source: io::Error::other("injected: the device is gone") }),
        }
    }
}

impl BlockDevice for Yanked {
    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.below.block_bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.there("read").and_then(|()| self.below.read_at(offset, into))
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        self.there("write").and_then(|()| self.below.write_at(offset, bytes, stream))
    }

    fn flush(&self) -> Result<()> {
        self.there("flush").and_then(|()| self.below.flush())
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        self.there("flush").and_then(|()| self.below.flush_ranges(ranges))
    }

    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        self.below.forget_cached(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.there("discard").and_then(|()| self.below.discard(offset, len))
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.there("zero").and_then(|()| self.below.write_zeroes(offset, len))
    }
}
